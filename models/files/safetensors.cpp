#include "models/files/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <system_error>

#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"
#include "models/files/json.h"
#include "models/files/stored_values.h"

namespace troupe::models {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::size_t kChunkBytes = std::size_t{1} << 16U;
// What a thread reads at a time. It is still in the cache when it is checked.
constexpr std::size_t kPieceBytes = std::size_t{1} << 18U;
constexpr std::uint64_t kFetchedAtOnce = std::uint64_t{1} << 17U;
constexpr std::string_view kHint = "the file is damaged: download it again";

void pread_all(int fd, std::uint64_t offset, std::span<std::byte> out,
               const std::string& place) {
  while (!out.empty()) {
    const ssize_t got =
        ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw Error(Errc::io, place,
                  "cannot read: " + std::generic_category().message(errno));
    }
    require(got != 0, Errc::corrupt_file, place,
            "the file became shorter while it was read", kHint);
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

template <typename T>
T load(const std::byte* bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

/// Calls fn(begin, end) for pieces of [0, total), on every thread of the pool
/// if there is one. Of several errors the first piece's is thrown, so that a
/// file has one message.
template <typename Fn>
void in_pieces(ThreadPool* pool, std::size_t total, std::size_t per_piece,
               const Fn& fn) {
  const auto call = [&](std::size_t piece) {
    fn(piece * per_piece, std::min(total, (piece + 1) * per_piece));
  };
  const std::size_t count = (total + per_piece - 1) / per_piece;
  if (pool == nullptr) {
    for (std::size_t piece = 0; piece < count; ++piece) {
      call(piece);
    }
    return;
  }
  std::mutex mutex;
  std::size_t first_bad = count;
  std::exception_ptr error;
  pool->run(static_cast<std::int64_t>(count), [&](std::int64_t i, int) {
    const auto piece = static_cast<std::size_t>(i);
    try {
      call(piece);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (piece < first_bad) {
        first_bad = piece;
        error = std::current_exception();
      }
    }
  });
  if (error) {
    std::rethrow_exception(error);
  }
}

std::string tensor_place(const std::filesystem::path& path,
                         const SafetensorsEntry& entry) {
  return path.string() + ": tensor " + in_quotes(entry.name);
}

}  // namespace

namespace {

/// Refuses a file that Git LFS left in place of the weights.
void check_is_no_pointer(int fd, std::uint64_t size, const std::string& place) {
  constexpr std::string_view kPointer = "version https://git-lfs";
  if (size < kPointer.size()) {
    return;
  }
  std::array<char, kPointer.size()> begin{};
  pread_all(fd, 0, std::as_writable_bytes(std::span(begin)), place);
  require(std::string_view(begin.data(), begin.size()) != kPointer,
          Errc::not_found, place,
          "the weights are not here: Git LFS left a pointer to them",
          "run git lfs pull in the checkpoint's folder");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)) {
  const std::string place = path_.string();
  fd_ = open_regular_file(path_);
  try {
    struct stat status {};
    require(::fstat(fd_, &status) == 0, Errc::io, place,
            "cannot read its size");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    require(size >= 8, Errc::corrupt_file, place,
            "too short for a safetensors file: got " + std::to_string(size) +
                " bytes, expected at least 8",
            kHint);
    std::array<std::byte, 8> prefix{};
    pread_all(fd_, 0, prefix, place);
    check_is_no_pointer(fd_, size, place);
    const auto header_bytes = load<std::uint64_t>(prefix.data(), 0);
    if (header_bytes > kLargestHeader || header_bytes > size - 8) {
      throw Error(Errc::corrupt_file, place,
                  "header length: got " + std::to_string(header_bytes) +
                      ", expected at most " +
                      std::to_string(std::min(kLargestHeader, size - 8)),
                  kHint);
    }
    std::string json(header_bytes, '\0');
    pread_all(fd_, 8, std::as_writable_bytes(std::span(json)), place);
    data_offset_ = 8 + header_bytes;
    header_ =
        parse_safetensors_header(std::move(json), size - data_offset_, place);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(fd_); }

void SafetensorsFile::read_bytes(const SafetensorsEntry& entry,
                                 std::uint64_t offset,
                                 std::span<std::byte> out) const {
  pread_all(fd_, data_offset_ + entry.begin + offset, out,
            tensor_place(path_, entry));
  const std::int64_t bad = first_non_finite(entry.dtype, out);
  if (bad >= 0) {
    const auto index =
        offset / stored_bytes_of(entry.dtype) + static_cast<std::uint64_t>(bad);
    throw Error(Errc::non_finite, tensor_place(path_, entry),
                "got NaN or infinity at element " + std::to_string(index) +
                    ", expected finite weights",
                "the checkpoint is unusable: use another one");
  }
}

void SafetensorsFile::check_narrowed(const SafetensorsEntry& entry,
                                     const Tensor& out, std::size_t begin,
                                     std::size_t end) const {
  const std::size_t element = size_of(out.dtype());
  const std::int64_t bad = first_non_finite(
      out.dtype() == DType::f32 ? FileDType::f32 : FileDType::bf16,
      out.bytes().subspan(begin * element, (end - begin) * element));
  if (bad >= 0) {
    throw Error(Errc::non_finite, tensor_place(path_, entry),
                "got a number at element " +
                    std::to_string(begin + static_cast<std::size_t>(bad)) +
                    " that becomes infinite as " +
                    std::string(troupe::to_string(out.dtype())) +
                    ", expected weights within ±3.38e38",
                "the checkpoint is unusable: use another one");
  }
}

void SafetensorsFile::read(const SafetensorsEntry& entry, Tensor& out,
                           ThreadPool* pool) const {
  const auto native = tensor_dtype(entry.dtype);
  if (!native) {
    throw Error(Errc::unsupported, tensor_place(path_, entry),
                "dtype " + std::string(to_string(entry.dtype)) +
                    " cannot be used: expected F32, BF16 or F16",
                "convert the checkpoint to one of these types");
  }
  require(out.shape().num_elements() == entry.shape.num_elements(),
          Errc::shape_mismatch, tensor_place(path_, entry),
          "shape: got " + troupe::to_string(entry.shape) + ", expected " +
              troupe::to_string(out.shape()));
  const bool same = out.dtype() == *native && entry.dtype != FileDType::f64;
  const bool both_float = is_float(entry.dtype) && (out.dtype() == DType::f32 ||
                                                    out.dtype() == DType::bf16);
  require(same || both_float, Errc::unsupported, tensor_place(path_, entry),
          "no conversion from " + std::string(to_string(entry.dtype)) + " to " +
              std::string(troupe::to_string(out.dtype())));
  const std::size_t element = stored_bytes_of(entry.dtype);
  in_pieces(pool, static_cast<std::size_t>(out.num_elements()),
            kPieceBytes / element, [&](std::size_t begin, std::size_t end) {
              if (same) {
                read_bytes(entry, begin * element,
                           out.bytes().subspan(begin * element,
                                               (end - begin) * element));
              } else {
                read_converted(entry, begin, end, out);
              }
            });
}

void SafetensorsFile::read_converted(const SafetensorsEntry& entry,
                                     std::size_t begin, std::size_t end,
                                     Tensor& out) const {
  std::array<std::byte, kChunkBytes> chunk;
  const std::size_t element = stored_bytes_of(entry.dtype);
  const std::size_t per_chunk = kChunkBytes / element;
  for (; begin < end; begin += per_chunk) {
    const std::size_t n = std::min(per_chunk, end - begin);
    read_bytes(entry, begin * element, std::span(chunk).first(n * element));
    convert_stored(entry.dtype, std::span(chunk).first(n * element), begin,
                   out);
    check_narrowed(entry, out, begin, begin + n);
  }
}

void SafetensorsFile::will_read(const SafetensorsEntry& entry) const noexcept {
  // Linux fetches no more at a call than a disk reads ahead by itself. A system
  // that does not take the advice reads more slowly, that is all.
  for (std::uint64_t at = entry.begin; at < entry.end; at += kFetchedAtOnce) {
    (void)::posix_fadvise(
        fd_, static_cast<::off_t>(data_offset_ + at),
        static_cast<::off_t>(std::min(kFetchedAtOnce, entry.end - at)),
        POSIX_FADV_WILLNEED);
  }
}

Tensor SafetensorsFile::read(const SafetensorsEntry& entry,
                             std::optional<DType> as) const {
  const auto native = tensor_dtype(entry.dtype);
  // An unknown type is refused by the read below before anything is filled.
  Tensor out(native ? entry.shape : Shape{0},
             as.value_or(native.value_or(DType::u8)));
  read(entry, out);
  return out;
}

std::vector<std::byte> SafetensorsFile::stored_bytes(
    const SafetensorsEntry& entry) const {
  std::vector<std::byte> bytes(entry.end - entry.begin);
  pread_all(fd_, data_offset_ + entry.begin, bytes, tensor_place(path_, entry));
  return bytes;
}

TensorFiles::TensorFiles(const std::vector<std::filesystem::path>& files) {
  for (const auto& path : files) {
    files_.push_back(std::make_unique<SafetensorsFile>(path));
  }
  index();
}

std::string_view TensorFiles::name_of(const Place& place) const {
  return files_[place.file]->header().entries.name(place.entry);
}

void TensorFiles::index() {
  if (files_.size() < 2) {
    return;  // one file has its own order
  }
  by_name_.reserve(num_tensors());
  for (std::uint32_t file = 0; file < files_.size(); ++file) {
    const std::size_t count = files_[file]->header().entries.size();
    for (std::uint32_t entry = 0; entry < count; ++entry) {
      by_name_.push_back({file, entry});
    }
  }
  std::sort(
      by_name_.begin(), by_name_.end(),
      [&](const Place& a, const Place& b) { return name_of(a) < name_of(b); });
  const auto twice = std::adjacent_find(
      by_name_.begin(), by_name_.end(),
      [&](const Place& a, const Place& b) { return name_of(a) == name_of(b); });
  if (twice != by_name_.end()) {
    throw Error(Errc::corrupt_file, files_[twice->file]->path().string(),
                "tensor " + in_quotes(name_of(*twice)) + " is in two shards",
                kHint);
  }
}

TensorFiles TensorFiles::from_index(const std::filesystem::path& index) {
  const Json json = Json::read_file(index);
  const auto weight_map = json.strings("weight_map");
  require(!weight_map.empty(), Errc::corrupt_file, index.string(),
          "weight_map is missing or empty", kHint);
  TensorFiles result;
  std::set<std::string> opened;
  for (const auto& [tensor, shard] : weight_map) {
    if (shard.empty() || shard.find_first_of("/\\") != std::string::npos ||
        shard.find("..") != std::string::npos) {
      throw Error(
          Errc::corrupt_file, index.string(),
          "shard name " + in_quotes(shard) + ": expected a plain file name",
          "do not use this checkpoint: it reaches outside its folder");
    }
    if (opened.insert(shard).second) {
      result.files_.push_back(
          std::make_unique<SafetensorsFile>(index.parent_path() / shard));
    }
  }
  result.index();
  // diffusers and transformers take every tensor of every shard, whichever
  // shard the index gives the tensor to.
  for (const auto& [tensor, shard] : weight_map) {
    if (!result.find(tensor)) {
      throw Error(
          Errc::corrupt_file, index.string(),
          "tensor " + in_quotes(tensor) + " is not in " + printable(shard),
          kHint);
    }
  }
  return result;
}

std::optional<TensorFiles::Found> TensorFiles::find(
    std::string_view name) const {
  if (files_.size() == 1) {
    const auto entry = files_.front()->find(name);
    return entry ? std::optional(Found{files_.front().get(), *entry})
                 : std::nullopt;
  }
  const auto at = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](const Place& p, std::string_view n) { return name_of(p) < n; });
  if (at == by_name_.end() || name_of(*at) != name) {
    return std::nullopt;
  }
  const SafetensorsFile& file = *files_[at->file];
  return Found{&file, file.header().entries[at->entry]};
}

std::uint64_t TensorFiles::data_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const auto& file : files_) {
    total += file->header().entries.data_bytes();
  }
  return total;
}

std::size_t TensorFiles::num_tensors() const noexcept {
  std::size_t count = 0;
  for (const auto& file : files_) {
    count += file->header().entries.size();
  }
  return count;
}

}  // namespace troupe::models
