#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "models/text/text_encoder.h"

namespace troupe::actors {

/// What text encoders made of texts in earlier runs, in files of a folder:
///
///   DIR/encoded/<key>.safetensors
///
/// A key follows from all that decides the bytes. Several processes may use one
/// folder. Nothing is ever removed. Thread: any.
class EncodingCache {
 public:
  /// One text, encoded.
  struct Entry {
    models::EncodedText text;
    std::uint64_t weights_hash = 0;  ///< of the encoder
  };

  /// An empty folder: nothing is found, nothing is kept.
  explicit EncodingCache(const std::filesystem::path& folder);

  /// Nothing if there is no whole entry of this key.
  [[nodiscard]] std::optional<Entry> find(std::uint64_t key) const;
  /// A file that cannot be written is a line in the log: the run does not need
  /// it.
  void keep(std::uint64_t key, const Entry& entry) const;

 private:
  [[nodiscard]] std::filesystem::path path_of(std::uint64_t key) const;

  std::filesystem::path folder_;
};

}  // namespace troupe::actors
