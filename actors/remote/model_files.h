#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/session.h"
#include "kernels/core/executor.h"
#include "net/link.h"

// How a process gets a model's files from the coordinator's process and from
// workers' processes that have them: as values of a link. The coordinator's
// process has a list of them, and each file comes in chunks.

namespace troupe::actors {

/// A file of a model's folder.
struct ModelFile {
  std::string path;  ///< within the folder, with '/'
  std::uint64_t bytes = 0;

  friend bool operator==(const ModelFile&, const ModelFile&) = default;
};

/// Of each value but a file's last.
inline constexpr std::size_t kModelChunkBytes = std::size_t{1} << 20U;

/// Whether a key asks for the list of files, for a chunk or for the list of
/// chunks.
[[nodiscard]] bool asks_for_model(const ValueKey& key);

/// The list as it travels, and the most bytes that it may have.
inline constexpr std::size_t kMostModelListBytes = std::size_t{1} << 20U;
[[nodiscard]] std::string encode(const std::vector<ModelFile>& files);
/// Errors: Errc::corrupt_file for what is no list, for a path that is not
/// within a folder or begins with a dot, and for one that comes twice.
[[nodiscard]] std::vector<ModelFile> decode_model_files(std::string_view text);

/// The chunks of all files of a list, numbered one file after the other.
class ModelChunks {
 public:
  struct Chunk {
    std::size_t file = 0;
    std::uint64_t number = 0;  ///< within the file
    std::uint64_t offset = 0;  ///< the same, in bytes
    std::size_t bytes = 0;

    [[nodiscard]] std::uint64_t end() const noexcept { return offset + bytes; }
  };

  /// Errors: Errc::corrupt_file for more bytes than any disk has.
  explicit ModelChunks(std::vector<ModelFile> files);

  [[nodiscard]] const std::vector<ModelFile>& files() const noexcept {
    return files_;
  }
  [[nodiscard]] std::uint64_t num_bytes() const noexcept { return num_bytes_; }
  [[nodiscard]] std::size_t size() const noexcept { return begins_.back(); }
  [[nodiscard]] Chunk at(std::size_t index) const;
  [[nodiscard]] ModelChunkKey key_of(std::size_t index) const;
  /// The index; nothing for a chunk that is not there.
  [[nodiscard]] std::optional<std::size_t> find(const ModelChunkKey& key) const;

 private:
  std::vector<ModelFile> files_;
  std::vector<std::size_t> begins_;  ///< the first chunk of each, and the end
  std::uint64_t num_bytes_ = 0;
};

/// Whether a folder has all these files, with these lengths.
[[nodiscard]] bool has_files(const std::filesystem::path& folder,
                             const std::vector<ModelFile>& files);

/// Serves the files of a model's folder, or the chunks that have arrived so
/// far. A thread of the object reads the files. Thread: any, several at once.
class ModelGiver {
 public:
  /// All of `files`, within the folder. Errors: Errc::io for one whose size
  /// cannot be read.
  ModelGiver(std::filesystem::path folder,
             const std::vector<std::filesystem::path>& files);
  /// Of this list what is there already, by the number of the chunk.
  ModelGiver(std::filesystem::path folder, ModelChunks chunks,
             std::vector<bool> there);

  /// Answers a question, now or later; `hub` outlives this object. What is
  /// not in the list, is not there yet, has become shorter or cannot be read is
  /// not given.
  void answer(net::Hub& hub, net::WantId want, const ValueKey& key);

  /// Another chunk is in the folder.
  void add(std::size_t chunk);
  /// Renames the folder, between two chunks that are read. Errors: Errc::io.
  void rename(const std::filesystem::path& to);

 private:
  void give_chunk(net::Hub& hub, net::WantId want, std::size_t chunk) const;
  [[nodiscard]] int open(const std::string& file) const;
  [[nodiscard]] std::string chunks_there() const;

  const ModelChunks chunks_;
  mutable std::mutex mutex_;  ///< of what follows
  std::filesystem::path folder_;
  std::vector<bool> there_;
  ThreadExecutor reader_;
};

}  // namespace troupe::actors
