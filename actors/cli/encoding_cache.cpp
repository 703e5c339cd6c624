#include "actors/cli/encoding_cache.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include "actors/cli/cache_file.h"
#include "actors/cli/tensor_file.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {
namespace {

constexpr const char* kText = ".safetensors";
constexpr const char* kWeights = ".weights";
constexpr std::size_t kMostHashText = 16;
constexpr const char* kHiddenState = "hidden";
constexpr const char* kPooledVector = "pooled";
/// The weights' hash and that of everything else, as i64.
constexpr const char* kHashes = "hashes";

std::uint64_t hash_of(const EncodingCache::Entry& entry) {
  const std::array<std::uint64_t, 3> parts = {
      xxh3_64(entry.text.hidden.bytes()),
      entry.text.pooled.empty() ? 0 : xxh3_64(entry.text.pooled.bytes()),
      entry.weights_hash};
  return xxh3_64(std::as_bytes(std::span(parts)));
}

}  // namespace

EncodingCache::EncodingCache(const std::filesystem::path& folder)
    : folder_(folder.empty() ? folder : folder / "encoded") {}

std::filesystem::path EncodingCache::path_of(std::uint64_t key,
                                             const char* kind) const {
  return folder_ / (to_hex(key) + kind);
}

std::optional<EncodingCache::Entry> EncodingCache::find(
    std::uint64_t key) const {
  std::error_code error;
  if (folder_.empty() || !std::filesystem::exists(path_of(key, kText), error)) {
    return std::nullopt;
  }
  try {
    Entry entry;
    std::uint64_t check = 0;
    for (const NamedTensor& named : read_tensors(path_of(key, kText))) {
      const Tensor& tensor = named.tensor;
      if (named.name == kHiddenState && tensor.shape().rank() == 2) {
        entry.text.hidden = tensor;
      } else if (named.name == kPooledVector && tensor.shape().rank() == 1) {
        entry.text.pooled = tensor;
      } else if (named.name == kHashes && tensor.dtype() == DType::i64 &&
                 tensor.shape() == Shape{2}) {
        std::memcpy(&entry.weights_hash, tensor.bytes().data(), sizeof(check));
        std::memcpy(&check, tensor.bytes().data() + sizeof(check),
                    sizeof(check));
      }
    }
    if (!entry.text.hidden.empty() && hash_of(entry) == check) {
      return entry;
    }
  } catch (const Error&) {
    // As a missing one: the next `keep` mends it.
  }
  log_message(LogLevel::warning, path_of(key, kText).string() +
                                     ": damaged; the prompt is encoded again");
  return std::nullopt;
}

void EncodingCache::keep(std::uint64_t key, const Entry& entry) const {
  if (folder_.empty()) {
    return;
  }
  Tensor hashes({2}, DType::i64);
  const std::array<std::uint64_t, 2> numbers = {entry.weights_hash,
                                                hash_of(entry)};
  std::memcpy(hashes.bytes().data(), numbers.data(), sizeof(numbers));
  std::vector<NamedTensor> tensors = {{kHiddenState, entry.text.hidden},
                                      {kHashes, hashes}};
  if (!entry.text.pooled.empty()) {
    tensors.push_back({kPooledVector, entry.text.pooled});
  }
  write("an encoded prompt",
        [&] { write_tensors(path_of(key, kText), tensors); });
}

std::uint64_t EncodingCache::find_weights(std::uint64_t key) const {
  std::error_code error;
  if (folder_.empty() ||
      !std::filesystem::exists(path_of(key, kWeights), error)) {
    return 0;
  }
  std::uint64_t hash = 0;
  try {
    const std::string text = read_file(path_of(key, kWeights), kMostHashText);
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, hash, 16);
    return read.ec == std::errc() && read.ptr == end ? hash : 0;
  } catch (const Error&) {
    return 0;  // as a missing one
  }
}

void EncodingCache::keep_weights(std::uint64_t key,
                                 std::uint64_t weights_hash) const {
  if (folder_.empty()) {
    return;
  }
  const std::string text = to_hex(weights_hash);
  write("the hash of an encoder", [&] {
    write_file(path_of(key, kWeights), std::as_bytes(std::span(text)));
  });
}

void EncodingCache::write(const char* what,
                          const std::function<void()>& fn) const {
  if (has_failed_) {
    return;
  }
  try {
    make_cache_folder(folder_);
    fn();
  } catch (const Error& failure) {
    has_failed_ = true;
    log_message(LogLevel::warning,
                std::string(what) + " is not kept, nor are others: " +
                    failure.what() + "; name another folder with --cache");
  }
}

}  // namespace troupe::actors
