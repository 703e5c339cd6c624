#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/executor.h"
#include "net/link.h"

// How a process gets a model's files from the coordinator's process: as values
// of the link, a list first and then each file in chunks.

namespace troupe::actors {

/// A file of a model's folder.
struct ModelFile {
  std::string path;  ///< within the folder, with '/'
  std::uint64_t bytes = 0;

  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

/// Of each value but a file's last.
inline constexpr std::size_t kModelChunkBytes = std::size_t{1} << 20U;

/// The key of the list, and of chunks.
inline constexpr std::string_view kModelFilesKey = "model-files";
[[nodiscard]] std::string key_of_chunk(std::size_t file, std::uint64_t chunk);
/// Whether a key asks for the list or a chunk.
[[nodiscard]] bool asks_for_model(std::string_view key);
/// The file and the chunk that a key asks for; nothing for other keys.
[[nodiscard]] std::optional<std::pair<std::size_t, std::uint64_t>> chunk_of(
    std::string_view key);

/// The list as it travels, and the most bytes that it may have.
inline constexpr std::size_t kMostModelListBytes = std::size_t{1} << 20U;
[[nodiscard]] std::string encode(const std::vector<ModelFile>& files);
/// Errors: Errc::corrupt_file for what is no list, for a path that is not
/// within a folder or begins with a dot, and for one that comes twice.
[[nodiscard]] std::vector<ModelFile> decode_model_files(std::string_view text);

/// Gives the files of a folder. Reads them on a thread of its own, which ends
/// with it. Thread: any, several at once.
class ModelGiver {
 public:
  /// `files`: within the folder. Errors: Errc::io for one whose size cannot be
  /// read.
  ModelGiver(std::filesystem::path folder,
             const std::vector<std::filesystem::path>& files);

  /// Answers a question, now or later; `hub` outlives this object. What is
  /// not in the list, has become shorter or cannot be read is not there.
  void answer(net::Hub& hub, net::WantId want, std::string_view key);

 private:
  void give_chunk(net::Hub& hub, net::WantId want, const ModelFile& file,
                  std::uint64_t chunk) const;

  std::filesystem::path folder_;
  std::vector<ModelFile> files_;
  ThreadExecutor reader_;
};

}  // namespace troupe::actors
