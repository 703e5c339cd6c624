#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {

/// Refuses JSON that a parser accepts: an object with the same key twice, and
/// more than 32 levels. A reader walks the text and calls `open`, `key` and
/// `close` for what it meets; each returns whether to go on.
///
/// A file may have millions of keys, so only their hashes are kept, and the
/// first walk does not know the name of a repeated key. If `needs_name()` holds
/// after a walk, walk the text again with `named()`, which throws at that key.
/// Thread: one at a time.
class KeyCheck {
 public:
  /// Errors are thrown with `code` at `place`, which must outlive the object.
  KeyCheck(std::string_view place, Errc code) : place_(place), code_(code) {}

  /// An object or a list begins. Errors: nested too deeply.
  bool open();
  /// A key of the object that began last. Errors: in the second walk, the
  /// repeated key.
  bool key(std::string_view text);
  /// The object or list that began last ends.
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
