#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {

/// Python writes what is not finite as a bare word, which is not JSON: such
/// words outside strings become strings. A reader refuses them where it wants
/// a number, instead of taking its default.
[[nodiscard]] std::string without_bare_words(std::string_view text);

/// Refuses what a parser would pass over: an object with a key twice, and more
/// than 32 levels. Returns whether the text is well-formed: if not, a parser
/// says what is wrong. Errors: `code` at `place`.
bool check_objects(std::string_view text, std::string_view place, Errc code);

/// A key of an object and the text of its value.
struct Member {
  std::string key;
  std::string_view value;  ///< into the text that was read
};

/// The members of the object that `text` is, without reading their values: a
/// file may have any number of them, and few matter. Malformed text ends the
/// list; the error is reported by another function.
[[nodiscard]] std::vector<Member> members_of(std::string_view text);

/// A value as a message shows it.
template <typename Json>
[[nodiscard]] std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

}  // namespace troupe::config
