#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/core/error.h"
#include "models/safetensors.h"

namespace troupe::models {
namespace {

std::string_view file_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  return "U8";
}

/// A file that appears under its name only when it is complete.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& path)
      : path_(path), temporary_(path) {
    temporary_ += ".tmp" + std::to_string(::getpid());
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                 0644);
    check(fd_ >= 0);
  }
  ~PendingFile() {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(temporary_.c_str());
    }
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) {
        continue;
      }
      check(put >= 0);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }

  void commit() {
    check(::fsync(fd_) == 0);
    check(::rename(temporary_.c_str(), path_.c_str()) == 0);
    ::close(fd_);
    fd_ = -1;
  }

 private:
  void check(bool ok) const {
    if (!ok) {
      throw Error(Errc::io, path_.string(),
                  "cannot write: " + std::generic_category().message(errno),
                  "choose a folder that can be written and has room");
    }
  }

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) {
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const auto wide_a = size_of(a->tensor.dtype());
    const auto wide_b = size_of(b->tensor.dtype());
    return wide_a != wide_b ? wide_a > wide_b : a->name < b->name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    require(!header.contains(named->name), Errc::invalid_argument,
            path.string(), "two tensors are named '" + named->name + "'");
    const std::uint64_t end = offset + named->tensor.num_bytes();
    const auto extents = named->tensor.shape().extents();
    header[named->name] = {
        {"dtype", file_name_of(named->tensor.dtype())},
        {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();

  PendingFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const NamedTensor* named : order) {
    file.write(named->tensor.bytes());
  }
  file.commit();
}

}  // namespace troupe::models
