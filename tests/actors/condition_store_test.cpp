#include "actors/condition_store.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::uint64_t kBytes = kRows * 3 * sizeof(float);

Tensor numbers(float first) {
  Tensor tensor({kRows, 3}, DType::f32);
  for (float& x : tensor.span<float>()) {
    x = first++;
  }
  return tensor;
}

/// TMPDIR for as long as the object lives.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& path) {
    if (const char* const said = std::getenv("TMPDIR")) {
      before_ = said;
    }
    ::setenv("TMPDIR", path.c_str(), 1);
  }
  ~TemporaryFolder() {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(TensorStore, GivesBackWhatIsInMemoryAndInItsFile) {
  TensorStore store(2 * kBytes);
  std::vector<Tensor> kept;
  for (int i = 0; i < 5; ++i) {
    kept.push_back(numbers(static_cast<float>(100 * i)));
    EXPECT_EQ(store.keep({kept.back(), Tensor()}), static_cast<std::size_t>(i));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::vector<Tensor> got = store.get(i);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_TRUE(bytes_equal(got[0], kept[i])) << i;
    EXPECT_TRUE(got[1].empty());
    // Those of the first two share the elements; the others hold none.
    EXPECT_EQ(got[0].owner() == kept[i].owner(), i < 2) << i;
    EXPECT_EQ(kept[i].owner().use_count() > 1, i < 2) << i;
  }
}

TEST(TensorStore, NamesTheFolderThatCannotTakeItsFile) {
  const TemporaryFolder missing("/no such folder");
  TensorStore store(0);
  try {
    (void)store.keep({numbers(0)});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.place(), "/no such folder");
    EXPECT_NE(error.hint().find("TMPDIR"), std::string::npos);
  }
}

TEST(TensorStore, AsksForRoomBeforeItIsNeeded) {
  EXPECT_NO_THROW(TensorStore::check_room(TensorStore::kMostInMemory, ""));
  EXPECT_THROW(TensorStore::check_room(std::uint64_t{1} << 62U, ""), Error);
  const TemporaryFolder missing("/no such folder");
  EXPECT_NO_THROW(TensorStore::check_room(TensorStore::kMostInMemory, ""));
  EXPECT_THROW(TensorStore::check_room(TensorStore::kMostInMemory + 1, ""),
               Error);
}

TEST(TensorStore, LeavesNoFileBehind) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "troupe-condition-store";
  std::filesystem::create_directories(folder);
  const TemporaryFolder here(folder.string());
  TensorStore store(0);
  (void)store.keep({numbers(0)});
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST(StoredCondition, IsTheConditionThatWasKept) {
  models::Condition condition;
  condition.add("prompt_embeds", numbers(1), 3);
  condition.add("pooled", numbers(7));
  const auto store = std::make_shared<TensorStore>(0);
  for (const StoredCondition& kept :
       {StoredCondition(condition), StoredCondition(condition, store)}) {
    EXPECT_EQ(kept.hash(), condition.hash());
    const models::Condition got = kept.get();
    EXPECT_EQ(got.hash(), condition.hash());
    EXPECT_EQ(got.find("prompt_embeds")->length, 3);
  }
  EXPECT_THROW((void)StoredCondition().get(), Error);
  const StoredCondition another(condition.hash(),
                                [] { return models::Condition(4); });
  EXPECT_THROW((void)another.get(), Error);
}

}  // namespace
}  // namespace troupe::actors
