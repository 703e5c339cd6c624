#include "actors/cli/model_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <set>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/exit_codes.h"
#include "kernels/core/hash.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"

namespace fs = std::filesystem;

namespace troupe::actors {
namespace {

/// Chunks that are asked for at a time: enough for 1 Gbit/s at 20 ms.
constexpr std::size_t kChunksAhead = 4;
/// Between two checks.
constexpr auto kGlance = std::chrono::milliseconds(50);

[[noreturn]] void fail(const fs::path& path, const std::string& what,
                       int reason) {
  throw Error(
      file_error(reason), path.string(), what + ": " + std::strerror(reason),
      "mend that, or name another folder with --cache; what has come is kept");
}

/// A file, closed in any case.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags)
      : path_(path),
        number_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0666)) {
    if (number_ < 0) {
      fail(path, "cannot be opened", errno);
    }
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t size() const {
    struct stat status {};
    if (::fstat(number_, &status) != 0) {
      fail(path_, "cannot be looked at", errno);
    }
    return static_cast<std::uint64_t>(status.st_size);
  }
  void resize(std::uint64_t size) const {
    if (::ftruncate(number_, static_cast<off_t>(size)) != 0) {
      fail(path_, "cannot be shortened", errno);
    }
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(number_, bytes.data(), bytes.size(),
                                       static_cast<off_t>(offset));
      if (written < 0 && errno != EINTR) {
        fail(path_, "cannot be written", errno);
      }
      const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
      offset += done;
      bytes = bytes.subspan(done);
    }
  }
  void sync() const {
    if (::fsync(number_) != 0) {
      fail(path_, "cannot be written", errno);
    }
  }

 private:
  fs::path path_;
  int number_;
};

/// Held by one process at a time; the others wait.
class Lock {
 public:
  Lock(const fs::path& path, const ModelCache::Check& check)
      : file_(path, O_RDWR | O_CREAT) {
    while (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        fail(path, "cannot be locked", errno);
      }
      check();
      std::this_thread::sleep_for(kGlance);
    }
  }

 private:
  Descriptor file_;
};

/// Of weights and configurations: a model with the same ones is the same.
std::string hash_of(const ModelRecord& model) {
  const std::string configs =
      model.denoiser_config + "\n" + model.decoder_config;
  return to_hex(model.weights_xxh3) + "-" +
         to_hex(xxh3_64(std::as_bytes(std::span(configs))));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    fail(folder, "cannot be made", error.value());
  }
}

/// The value, when it has come.
net::SharedBytes take(std::future<net::Fetched>& asked, const std::string& what,
                      const ModelCache::Check& check) {
  while (asked.wait_for(kGlance) != std::future_status::ready) {
    check();
  }
  net::Fetched fetched = asked.get();
  require(
      fetched.status == net::FetchStatus::found && fetched.value.size() == 1,
      Errc::unreachable, what,
      "the job's host did not give it: " +
          (fetched.what.empty() ? "other parts than asked for" : fetched.what),
      "give the worker a copy with --model-root");
  return fetched.value.front();
}

std::uint64_t num_chunks(const ModelFile& file) {
  return (file.bytes + kModelChunkBytes - 1) / kModelChunkBytes;
}

/// One fetching, under the lock.
class Fetching {
 public:
  Fetching(fs::path folder, const ModelCache::Ask& ask,
           const ModelCache::Progress& progress, const ModelCache::Check& check)
      : folder_(std::move(folder)),
        ask_(ask),
        progress_(progress),
        check_(check) {}

  void run() {
    auto asked = ask_(std::string(kModelFilesKey), kMostModelListBytes);
    const net::SharedBytes list = take(asked, "model files", check_);
    files_ = decode_model_files(
        {reinterpret_cast<const char*>(list.data.get()), list.size});
    make_folder(folder_);
    remove_others();
    for (const ModelFile& file : files_) {
      total_ += file.bytes;
      there_ += begun(file);
    }
    check_room();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      fetch(i);
    }
  }

 private:
  [[nodiscard]] fs::path path_of(const ModelFile& file) const {
    return folder_ / file.path;
  }
  /// Whole chunks that an earlier run has left: the last one may have been cut
  /// short.
  [[nodiscard]] std::uint64_t begun(const ModelFile& file) const {
    std::error_code error;
    const std::uint64_t size = fs::file_size(path_of(file), error);
    if (error) {
      return 0;
    }
    return size == file.bytes ? size
                              : std::min(size, file.bytes) / kModelChunkBytes *
                                    kModelChunkBytes;
  }
  /// What a host with other files of the same model had given.
  void remove_others() const {
    std::set<fs::path> wanted;
    for (const ModelFile& file : files_) {
      wanted.insert(path_of(file));
    }
    std::error_code error;
    std::vector<fs::path> others;
    for (fs::recursive_directory_iterator at(folder_, error), end;
         !error && at != end; at.increment(error)) {
      if (!at->is_directory(error) && !wanted.contains(at->path())) {
        others.push_back(at->path());
      }
    }
    for (const fs::path& path : others) {
      fs::remove(path, error);
    }
    if (error) {
      fail(folder_, "cannot be cleared", error.value());
    }
  }
  void check_room() const {
    std::error_code error;
    const fs::space_info space = fs::space(folder_, error);
    const std::uint64_t left = total_ - there_;
    if (!error && left > space.available) {
      throw Error(Errc::no_space, folder_.string(),
                  "the model does not fit: got " +
                      human_bytes(space.available) + ", expected " +
                      human_bytes(left),
                  "name a larger disk with --cache");
    }
  }
  void fetch(std::size_t number) {
    const ModelFile& file = files_[number];
    const fs::path path = path_of(file);
    make_folder(path.parent_path());
    const Descriptor to(path, O_RDWR | O_CREAT);
    const std::uint64_t begin = begun(file);
    to.resize(begin);
    std::deque<std::future<net::Fetched>> asked;
    std::uint64_t next = begin / kModelChunkBytes;
    for (std::uint64_t offset = begin; offset < file.bytes;) {
      while (asked.size() < kChunksAhead && next < num_chunks(file)) {
        asked.push_back(ask_(key_of_chunk(number, next++), kModelChunkBytes));
      }
      const net::SharedBytes chunk = take(asked.front(), file.path, check_);
      asked.pop_front();
      require(chunk.size == std::min<std::uint64_t>(kModelChunkBytes,
                                                    file.bytes - offset),
              Errc::corrupt_file, file.path,
              "a part of it has another size than the list says");
      to.write(offset, chunk.span());
      offset += chunk.size;
      there_ += chunk.size;
    }
    to.sync();
    sync_folder(path.parent_path());
    progress_(there_, total_);
  }

  fs::path folder_;
  const ModelCache::Ask& ask_;
  const ModelCache::Progress& progress_;
  const ModelCache::Check& check_;
  std::vector<ModelFile> files_;
  std::uint64_t total_ = 0;
  std::uint64_t there_ = 0;
};

}  // namespace

fs::path ModelCache::fetch(const ModelRecord& model, const Ask& ask,
                           const Progress& progress, const Check& check) const {
  make_folder(folder_);
  const std::string hash = hash_of(model);
  const fs::path whole = folder_ / hash;
  const fs::path part = folder_ / (hash + ".part");
  const Lock lock(folder_ / (hash + ".lock"), check);
  std::error_code error;
  if (!fs::exists(whole, error)) {
    Fetching(part, ask, progress, check).run();
    fs::rename(part, whole, error);
    if (error) {
      fail(whole, "cannot be named", error.value());
    }
    sync_folder(folder_);
  }
  return whole;
}

void ModelCache::remove(const ModelRecord& model, const Check& check) const {
  const std::string hash = hash_of(model);
  const Lock lock(folder_ / (hash + ".lock"), check);
  std::error_code error;
  fs::remove_all(folder_ / hash, error);
  if (error) {
    fail(folder_ / hash, "cannot be removed", error.value());
  }
}

}  // namespace troupe::actors
