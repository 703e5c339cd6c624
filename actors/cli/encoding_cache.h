#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "models/text/text_encoder.h"

namespace troupe::actors {

/// What text encoders made of texts in earlier runs, in files of a folder:
///
///   DIR/encoded/<key>.safetensors    a text
///   DIR/encoded/<key>.weights        the hash of an encoder's weights
///
/// A text's key follows from all that decides the bytes, the hash of the
/// weights included. So that the weights need not be read for the key, the
/// second kind of file keeps their hash under a key of their place. Several
/// processes may use one folder. Nothing is ever removed. Thread: any.
class EncodingCache {
 public:
  /// One text, encoded.
  struct Entry {
    models::EncodedText text;
    std::uint64_t weights_hash = 0;  ///< of the encoder
  };

  /// An empty folder: nothing is found, nothing is kept.
  explicit EncodingCache(const std::filesystem::path& folder);

  [[nodiscard]] bool is_used() const noexcept { return !folder_.empty(); }
  /// Nothing if there is no whole entry of this key.
  [[nodiscard]] std::optional<Entry> find(std::uint64_t key) const;
  /// A file that cannot be written is a line in the log, and none is written
  /// after it: the run does not need them.
  void keep(std::uint64_t key, const Entry& entry) const;

  /// The hash that was kept under this key of an encoder; 0: none.
  [[nodiscard]] std::uint64_t find_weights(std::uint64_t key) const;
  /// As `keep`.
  void keep_weights(std::uint64_t key, std::uint64_t weights_hash) const;

 private:
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t key,
                                              const char* kind) const;
  /// Makes the folder and runs fn, which writes `what` there. Errors become a
  /// line in the log.
  void write(const char* what, const std::function<void()>& fn) const;

  std::filesystem::path folder_;
  mutable std::atomic<bool> has_failed_ = false;
};

}  // namespace troupe::actors
