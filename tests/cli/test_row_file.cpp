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
