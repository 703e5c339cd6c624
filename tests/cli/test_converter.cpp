#include <gtest/gtest.h>

#include <fstream>

#include "actors/cli/model_source.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

void make_script(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "convert_checkpoint.py") << "#";
}

TEST(Converter, LiesInTheShareFolderOfAnInstalledProgram) {
  const TemporaryFolder prefix;
  make_script(prefix.path() / "share/troupe/scripts");
  EXPECT_EQ(converter_of(prefix.path() / "bin" / "troupe"),
            prefix.path() / "share/troupe/scripts/convert_checkpoint.py");
}

TEST(Converter, LiesInTheSourceTreeOfABuiltProgram) {
  const TemporaryFolder source;
  make_script(source.path() / "scripts");
  for (const char* program : {"build/release/troupe", "build/troupe"}) {
    EXPECT_EQ(converter_of(source.path() / program),
              source.path() / "scripts/convert_checkpoint.py");
  }
}

TEST(Converter, IsABareNameWhereItIsNotFound) {
  const TemporaryFolder nowhere;
  EXPECT_EQ(converter_of(nowhere.path() / "a/b/troupe"),
            "convert_checkpoint.py");
}

}  // namespace
}  // namespace troupe::actors
