#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {

/// Refuses what a JSON parser passes over: a key that its object has twice, and
/// more than 32 levels. A reader walks the text and tells what it meets; each
/// function returns whether to go on. A file may have millions of keys, so
/// hashes of them are kept: once a walk has ended with `needs_name()`, walk
/// again with `named()`, which throws at the key.
/// Thread: one at a time.
class KeyCheck {
 public:
  /// Errors are thrown with `code` at `place`, which must outlive the object.
  KeyCheck(std::string_view place, Errc code) : place_(place), code_(code) {}

  /// An object or a list begins. Errors: nested too deeply.
  bool open();
  /// A key of the object that began last. Errors: the one to be named.
  bool key(std::string_view text);
  /// What began last ends.
  bool close();

  [[nodiscard]] bool needs_name() const noexcept {
    return repeated_.has_value();
  }
  /// For the second walk over the same text.
  [[nodiscard]] KeyCheck named() const;

 private:
  std::string_view place_;
  Errc code_;
  std::vector<std::vector<std::uint64_t>> open_;  ///< hashes of their keys
  std::optional<std::uint64_t> repeated_;
  bool names_it_ = false;
};

}  // namespace troupe
