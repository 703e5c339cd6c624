#include "actors/remote/model_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <system_error>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace fs = std::filesystem;

namespace troupe::actors {
namespace {

constexpr std::string_view kChunkPrefix = "model-file/";

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

/// Whether so many bytes could be read.
bool read_at(const fs::path& path, std::uint64_t offset,
             std::span<std::byte> to) {
  const int descriptor = open_regular_file(path);
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

}  // namespace

std::string key_of_chunk(std::size_t file, std::uint64_t chunk) {
  return std::string(kChunkPrefix) + std::to_string(file) + "/" +
         std::to_string(chunk);
}

std::optional<std::pair<std::size_t, std::uint64_t>> chunk_of(
    std::string_view key) {
  if (!key.starts_with(kChunkPrefix)) {
    return std::nullopt;
  }
  key.remove_prefix(kChunkPrefix.size());
  const std::size_t slash = key.find('/');
  std::pair<std::size_t, std::uint64_t> numbers;
  if (slash == std::string_view::npos ||
      !read_number(key.substr(0, slash), numbers.first) ||
      !read_number(key.substr(slash + 1), numbers.second)) {
    return std::nullopt;
  }
  return numbers;
}

bool asks_for_model(std::string_view key) {
  return key == kModelFilesKey || key.starts_with(kChunkPrefix);
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

ModelGiver::ModelGiver(fs::path folder, const std::vector<fs::path>& files)
    : folder_(std::move(folder)) {
  for (const fs::path& path : files) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(folder_ / path, error);
    require(!error, Errc::io, (folder_ / path).string(),
            "its size cannot be read: " + error.message());
    files_.push_back({path.generic_string(), bytes});
  }
}

void ModelGiver::answer(net::Hub& hub, net::WantId want, std::string_view key) {
  if (key == kModelFilesKey) {
    hub.give(want, {net::share(encode(files_))});
    return;
  }
  const auto asked = chunk_of(key);
  if (!asked || asked->first >= files_.size() ||
      asked->second > files_[asked->first].bytes / kModelChunkBytes) {
    hub.give_nothing(want);
    return;
  }
  reader_.post([this, &hub, want, &file = files_[asked->first],
                chunk = asked->second] { give_chunk(hub, want, file, chunk); });
}

void ModelGiver::give_chunk(net::Hub& hub, net::WantId want,
                            const ModelFile& file, std::uint64_t chunk) const {
  const std::uint64_t begin = chunk * kModelChunkBytes;
  const auto size = static_cast<std::size_t>(
      std::min<std::uint64_t>(kModelChunkBytes, file.bytes - begin));
  try {
    const auto owner = std::make_shared_for_overwrite<std::byte[]>(size);
    const net::SharedBytes bytes{{owner, owner.get()}, size};
    if (read_at(folder_ / file.path, begin, {bytes.data.get(), size})) {
      hub.give(want, {bytes});
      return;
    }
    log_message(LogLevel::warning,
                (folder_ / file.path).string() + " is shorter than it was");
  } catch (const std::exception& error) {
    log_message(LogLevel::warning, error.what());
  }
  hub.give_nothing(want);
}

}  // namespace troupe::actors
