#include "kernels/core/key_check.h"

#include <gtest/gtest.h>

#include <string>

namespace troupe {
namespace {

/// Walks {"a": {"b": …}, "b": …, last: …}; false where the walk stopped.
bool walk(KeyCheck& check, const std::string& last) {
  return check.open() && check.key("a") && check.open() && check.key("b") &&
         check.close() && check.key("b") && check.key(last) && check.close();
}

TEST(KeyCheck, LetsKeysOfDifferentObjectsBeTheSame) {
  KeyCheck check("file", Errc::corrupt_file);
  EXPECT_TRUE(walk(check, "c"));
  EXPECT_FALSE(check.needs_name());
}

TEST(KeyCheck, NamesTheKeyThatItsObjectHasTwice) {
  KeyCheck check("file", Errc::corrupt_file);
  EXPECT_FALSE(walk(check, "a"));
  ASSERT_TRUE(check.needs_name());
  KeyCheck named = check.named();
  try {
    (void)walk(named, "a");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file);
    EXPECT_EQ(error.place(), "file");
    EXPECT_EQ(error.message(), "duplicate key 'a'");
  }
}

TEST(KeyCheck, RefusesMoreThan32Levels) {
  KeyCheck check("file", Errc::invalid_argument);
  for (int i = 0; i < 32; ++i) {
    EXPECT_TRUE(check.open());
  }
  EXPECT_THROW((void)check.open(), Error);
}

}  // namespace
}  // namespace troupe
