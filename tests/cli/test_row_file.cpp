#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "actors/cli/row_file.h"
#include "actors/cli/tensor_file.h"
#include "kernels/core/error.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

Tensor filled(float value, const Shape& shape) {
  Tensor tensor = Tensor::zeros(shape, DType::f32);
  std::ranges::fill(tensor.span<float>(), value);
  return tensor;
}

class RowFiles : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return folder_.path() / (name + GetParam());
  }
  [[nodiscard]] static RowFile::Rows rows(std::uint64_t begin,
                                          std::uint64_t end) {
    return {"trajectory", {begin, end}, Shape({2, 3})};
  }
  /// As `write_tensors` writes these rows.
  [[nodiscard]] std::string whole(const std::vector<float>& values) const {
    Tensor all = Tensor::zeros({static_cast<std::int64_t>(values.size()), 2, 3},
                               DType::f32);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::ranges::fill(all.span<float>().subspan(i * 6, 6), values[i]);
    }
    const std::vector<NamedTensor> tensors = {{"trajectory", all}};
    write_tensors(path("whole"), tensors);
    return read_file(path("whole"), 1U << 20U);
  }

  TemporaryFolder folder_;
};

TEST_P(RowFiles, AreAsIfWrittenAtOnce) {
  RowFile file(path("a"), rows(4, 7), IfThere::refuse);
  for (const std::uint64_t index : {6U, 4U, 5U}) {
    const Tensor half =
        filled(static_cast<float>(index), Shape({3}));  // in two pieces
    for (const std::uint64_t piece : {1U, 0U}) {
      file.write(index, piece * half.num_bytes(), half.bytes());
    }
    file.complete(index);
  }
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  file.commit();
  EXPECT_EQ(read_file(path("a"), 1U << 20U), whole({4, 5, 6}));
}

TEST_P(RowFiles, LeaveOutWhatIsNotComplete) {
  RowFile file(path("a"), rows(0, 1200), IfThere::refuse);
  for (const std::uint64_t index : {0U, 3U, 700U, 1199U}) {
    const Tensor row = filled(static_cast<float>(index), Shape({2, 3}));
    file.write(index, 0, row.bytes());
    if (index != 700) {
      file.complete(index);
    }
  }
  // Those behind the gap, or all for the checksum.
  EXPECT_EQ(file.commit_bytes(),
            (GetParam() == std::string(".npz") ? 3U : 2U) * 24);
  file.commit();
  const std::vector<NamedTensor> read = read_tensors(path("a"));
  ASSERT_EQ(read.size(), 1U);
  ASSERT_EQ(read[0].tensor.shape(), Shape({3, 2, 3}));
  for (const auto& [at, value] :
       std::vector<std::pair<int, int>>{{0, 0}, {1, 3}, {2, 1199}}) {
    EXPECT_TRUE(bytes_equal(read[0].tensor.item(at),
                            filled(static_cast<float>(value), Shape({2, 3}))));
  }
}

/// The rows that a later run finds, by their first element.
std::vector<float> left_of(const std::filesystem::path& path) {
  std::vector<float> values;
  RowFile::for_each_left(path, Shape({2, 3}), [&](Tensor row) {
    EXPECT_TRUE(bytes_equal(row, filled(row.span<float>()[0], Shape({2, 3}))));
    values.push_back(row.span<float>()[0]);
  });
  return values;
}

/// Nothing runs at the end of a killed process, so a copy is what it leaves.
TEST_P(RowFiles, OfAKilledRunHaveTheRowsThatWereSealed) {
  EXPECT_EQ(left_of(path("a")), std::vector<float>{});
  {
    RowFile file(path("a"), rows(3, 6), IfThere::refuse);
    file.keep();
    for (const std::uint64_t index : {5U, 3U, 4U}) {
      const Tensor row = filled(static_cast<float>(index), Shape({2, 3}));
      file.write(index, 0, row.bytes());
      if (index != 4) {
        file.seal(index);
      }
    }
    EXPECT_EQ(left_of(path("a")), (std::vector<float>{3, 5}));
    std::filesystem::copy(AtomicFile::kept_path(path("a")),
                          AtomicFile::kept_path(path("b")));
  }
  EXPECT_EQ(left_of(path("a")), (std::vector<float>{3, 5})) << "not committed";
  // A bit that changed, and a file that has lost its end.
  const auto left = AtomicFile::kept_path(path("b"));
  std::string bytes = read_file(left, 1U << 20U);
  bytes[bytes.size() - 3 * 8 - 1] ^= 1;  // of the last row
  write_file(left, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(left_of(path("b")), std::vector<float>{3});
  bytes.pop_back();
  write_file(left, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(left_of(path("b")), std::vector<float>{});
  // The next run takes their place, and leaves nothing beside its file.
  RowFile next(path("a"), rows(0, 2), IfThere::refuse);
  const Tensor row = filled(1, Shape({2, 3}));
  next.write(1, 0, row.bytes());
  next.seal(1);
  next.complete(1);
  next.keep();
  EXPECT_EQ(left_of(path("a")), std::vector<float>{1});
  next.commit();
  EXPECT_EQ(read_file(path("a"), 1U << 20U), whole({1}));
  EXPECT_FALSE(std::filesystem::exists(AtomicFile::kept_path(path("a"))));
}

TEST_P(RowFiles, AreNotTakenFromARunThatGoesOn) {
  RowFile first(path("a"), rows(0, 2), IfThere::refuse);
  first.keep();
  const Tensor row = filled(1, Shape({2, 3}));
  first.write(1, 0, row.bytes());
  first.seal(1);
  RowFile second(path("a"), rows(0, 2), IfThere::refuse);
  second.keep();
  EXPECT_EQ(left_of(path("a")), std::vector<float>{1});
}

TEST_P(RowFiles, OfNothingAreNoFiles) {
  {
    RowFile file(path("a"), rows(0, 2), IfThere::refuse);
    const Tensor row = filled(1, Shape({2, 3}));
    file.write(1, 0, row.bytes());
    EXPECT_THROW(file.write(1, 4, row.bytes()), Error);
    file.commit();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

/// So a disk that other programs fill meanwhile does not end the job.
TEST_P(RowFiles, TakeTheirRoomAtOnce) {
  const RowFile file(path("a"), rows(0, 100'000), IfThere::refuse);
  const std::filesystem::directory_iterator files(folder_.path());
  ASSERT_NE(files, std::filesystem::directory_iterator());
  struct ::stat found {};
  ASSERT_EQ(::stat(files->path().c_str(), &found), 0);
  // POSIX counts st_blocks in units of 512 bytes.
  EXPECT_GE(found.st_blocks * 512, 100'000 * 24);
}

TEST_P(RowFiles, AreRefusedWhereTheDiskHasTooLittleRoom) {
  EXPECT_NO_THROW(RowFile::check_room("--save", path("a"), rows(0, 1000)));
  RowFile::Rows many{"trajectory", {0, 1'000'000'000}, Shape({1'000'000})};
  try {
    RowFile::check_room("--save", path("a"), many);
    ADD_FAILURE() << "it fits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), GetParam() == std::string(".npz")
                                ? Errc::unsupported  // over 4 GiB
                                : Errc::no_space);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RowFiles,
                         testing::Values(".npz", ".npy", ".safetensors"));

}  // namespace
}  // namespace troupe::actors
