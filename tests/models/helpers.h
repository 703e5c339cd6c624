#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/boundary.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"

namespace troupe::models {

inline std::size_t bytes_of(const Boundary& boundary) {
  std::size_t bytes = 0;
  for (const NamedTensor& named : boundary) {
    bytes += named.tensor.num_bytes();
  }
  return bytes;
}

/// A folder of its own that is gone after the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "troupe_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::filesystem::path& name,
                              std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

/// The bytes of a safetensors file with this header and data.
inline std::string file_bytes(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(data);
}

/// Runs `call`, expects an Error, and returns it.
template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {Errc::internal, "", ""};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// ‖a − b‖ / ‖b‖ over f32 tensors of one shape.
inline double relative_error(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double difference = 0.0;
  double norm = 0.0;
  for (std::int64_t i = 0; i < b.num_elements(); ++i) {
    const double x = a.data<float>()[i];
    const double y = b.data<float>()[i];
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  return std::sqrt(difference / norm);
}

/// Folders of fixtures whose name begins with `prefix`; the environment
/// variable TROUPE_GOLDEN replaces the repository's.
inline std::vector<std::filesystem::path> golden_folders(
    std::string_view prefix) {
  const char* elsewhere = std::getenv("TROUPE_GOLDEN");
  std::vector<std::filesystem::path> folders;
  for (const auto& item : std::filesystem::directory_iterator(
           elsewhere != nullptr ? elsewhere : TROUPE_GOLDEN_DIR)) {
    if (item.path().filename().string().starts_with(prefix)) {
      folders.push_back(item.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace troupe::models
