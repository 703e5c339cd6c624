#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "actors/remote/model_files.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

inline std::string bytes_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

/// A folder of files as a model has them.
class SomeModel {
 public:
  explicit SomeModel(std::size_t megabytes, unsigned seed = 1) {
    add("model_index.json", 300, seed);
    add("vae/empty.json", 0, seed);
    add("transformer/weights.safetensors", megabytes * kMiB + 77, seed);
    add("vae/weights.safetensors", 2 * kMiB, seed);
  }

  [[nodiscard]] const std::filesystem::path& folder() const {
    return folder_.path();
  }
  [[nodiscard]] const std::vector<std::filesystem::path>& paths() const {
    return paths_;
  }
  [[nodiscard]] const std::vector<ModelFile>& files() const { return files_; }
  [[nodiscard]] std::size_t num_chunks() const {
    return ModelChunks(files_).size();
  }
  [[nodiscard]] std::string chunk(const ModelChunkKey& key) const {
    const ModelFile& file = files_.at(key.file);
    return contents_.at(file.path).substr(key.chunk * kModelChunkBytes,
                                          kModelChunkBytes);
  }
  void expect_copy_at(const std::filesystem::path& copy) const {
    std::size_t files = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(copy)) {
      files += entry.is_regular_file() ? 1U : 0U;
    }
    EXPECT_EQ(files, files_.size());
    for (const auto& [path, content] : contents_) {
      EXPECT_TRUE(bytes_in(copy / path) == content) << path;
    }
  }

 private:
  void add(const std::string& path, std::size_t bytes, unsigned seed) {
    std::mt19937_64 random(seed + bytes);
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; i += 64) {
      content[i] = static_cast<char>(random());
    }
    std::filesystem::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path, std::ios::binary) << content;
    paths_.emplace_back(path);
    files_.push_back({path, bytes});
    contents_[path] = std::move(content);
  }

  TemporaryFolder folder_;
  std::vector<std::filesystem::path> paths_;
  std::vector<ModelFile> files_;
  std::map<std::string, std::string> contents_;
};

}  // namespace troupe::actors
