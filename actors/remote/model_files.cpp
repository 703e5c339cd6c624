#include "actors/remote/model_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <system_error>

#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/system/atomic_file.h"

namespace fs = std::filesystem;

namespace troupe::actors {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// Another host chooses it: it must not leave the folder, nor hide in it.
bool is_within(std::string_view path) {
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    const bool is_plain = std::ranges::all_of(name, [](char c) {
      return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && c != '\\';
    });
    if (name.empty() || name.front() == '.' || !is_plain) {
      return false;
    }
    if (slash == path.size()) {
      return true;
    }
    path.remove_prefix(slash + 1);
  }
  return false;
}

/// Whether so many bytes could be read. Closes the descriptor.
bool read_at(int descriptor, std::uint64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got =
        ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      break;
    }
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  ::close(descriptor);
  return to.empty();
}

std::uint64_t num_chunks(const ModelFile& file) {
  return file.bytes / kModelChunkBytes +
         (file.bytes % kModelChunkBytes > 0 ? 1 : 0);
}

std::vector<ModelFile> sized(const fs::path& folder,
                             const std::vector<fs::path>& paths) {
  std::vector<ModelFile> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(folder / path, error);
    require(!error, Errc::io, (folder / path).string(),
            "its size cannot be read: " + error.message());
    files.push_back({path.generic_string(), bytes});
  }
  return files;
}

}  // namespace

bool asks_for_model(const ValueKey& key) {
  return std::holds_alternative<ModelFilesKey>(key) ||
         std::holds_alternative<ModelChunksKey>(key) ||
         std::holds_alternative<ModelChunkKey>(key);
}

std::string encode(const std::vector<ModelFile>& files) {
  std::string text;
  for (const ModelFile& file : files) {
    text += std::to_string(file.bytes) + " " + file.path + "\n";
  }
  return text;
}

std::vector<ModelFile> decode_model_files(std::string_view text) {
  std::vector<ModelFile> files;
  std::set<std::string_view> paths;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t space = line.find(' ');
    std::uint64_t bytes = 0;
    const bool is_whole = end != std::string_view::npos &&
                          space != std::string_view::npos &&
                          read_number(line.substr(0, space), bytes);
    require(is_whole && is_within(line.substr(space + 1)), Errc::corrupt_file,
            "model files", "a line of the list is no file of a folder");
    require(paths.insert(line.substr(space + 1)).second, Errc::corrupt_file,
            "model files", "a file comes twice in the list");
    files.push_back({std::string(line.substr(space + 1)), bytes});
    text.remove_prefix(end + 1);
  }
  return files;
}

ModelChunks::ModelChunks(std::vector<ModelFile> files)
    : files_(std::move(files)), begins_{0} {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 60U;
  for (const ModelFile& file : files_) {
    require(file.bytes <= kMostBytes - num_bytes_, Errc::corrupt_file,
            "model files", "they have more bytes than any disk");
    num_bytes_ += file.bytes;
    begins_.push_back(begins_.back() + num_chunks(file));
  }
}

ModelChunks::Chunk ModelChunks::at(std::size_t index) const {
  const auto after = std::ranges::upper_bound(begins_, index);
  const auto file = static_cast<std::size_t>(after - begins_.begin() - 1);
  const std::uint64_t number = index - begins_[file];
  const std::uint64_t offset = number * kModelChunkBytes;
  return {file, number, offset,
          static_cast<std::size_t>(std::min<std::uint64_t>(
              kModelChunkBytes, files_[file].bytes - offset))};
}

ModelChunkKey ModelChunks::key_of(std::size_t index) const {
  const Chunk chunk = at(index);
  return {chunk.file, chunk.number};
}

std::optional<std::size_t> ModelChunks::find(const ModelChunkKey& key) const {
  if (key.file >= files_.size() || key.chunk >= num_chunks(files_[key.file])) {
    return std::nullopt;
  }
  return begins_[key.file] + key.chunk;
}

bool has_files(const fs::path& folder, const std::vector<ModelFile>& files) {
  return std::ranges::all_of(files, [&](const ModelFile& file) {
    std::error_code error;
    return fs::file_size(folder / file.path, error) == file.bytes && !error;
  });
}

ModelGiver::ModelGiver(fs::path folder, const std::vector<fs::path>& files)
    : chunks_(sized(folder, files)),
      folder_(std::move(folder)),
      there_(chunks_.size(), true) {}

ModelGiver::ModelGiver(fs::path folder, ModelChunks chunks,
                       std::vector<bool> there)
    : chunks_(std::move(chunks)),
      folder_(std::move(folder)),
      there_(std::move(there)) {}

void ModelGiver::answer(net::Hub& hub, net::WantId want, const ValueKey& key) {
  if (std::holds_alternative<ModelFilesKey>(key)) {
    hub.give(want, {net::share(encode(chunks_.files()))});
    return;
  }
  if (std::holds_alternative<ModelChunksKey>(key)) {
    hub.give(want, {net::share(chunks_there())});
    return;
  }
  const auto* const asked = std::get_if<ModelChunkKey>(&key);
  const auto chunk = asked != nullptr ? chunks_.find(*asked) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!chunk || !there_[*chunk]) {
    hub.give_nothing(want);
    return;
  }
  reader_.post(
      [this, &hub, want, number = *chunk] { give_chunk(hub, want, number); });
}

std::string ModelGiver::chunks_there() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const bool is_there : there_) {
    text.push_back(is_there ? '1' : '0');
  }
  return text;
}

void ModelGiver::add(std::size_t chunk) {
  const std::lock_guard lock(mutex_);
  there_[chunk] = true;
}

void ModelGiver::rename(const fs::path& to) {
  const std::lock_guard lock(mutex_);
  std::error_code error;
  fs::rename(folder_, to, error);
  require(!error, Errc::io, to.string(), "cannot be named: " + error.message());
  folder_ = to;
}

int ModelGiver::open(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  return open_regular_file(folder_ / file);
}

void ModelGiver::give_chunk(net::Hub& hub, net::WantId want,
                            std::size_t number) const {
  const ModelChunks::Chunk chunk = chunks_.at(number);
  const std::string& file = chunks_.files()[chunk.file].path;
  try {
    const auto owner = std::make_shared_for_overwrite<std::byte[]>(chunk.bytes);
    const net::SharedBytes bytes{{owner, owner.get()}, chunk.bytes};
    if (read_at(open(file), chunk.offset, {owner.get(), chunk.bytes})) {
      hub.give(want, {bytes});
      return;
    }
    log_message(LogLevel::warning, file + " is shorter than it was");
  } catch (const std::exception& error) {
    log_message(LogLevel::warning, error.what());
  }
  hub.give_nothing(want);
}

}  // namespace troupe::actors
