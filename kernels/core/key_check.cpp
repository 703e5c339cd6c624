#include "kernels/core/key_check.h"

#include <algorithm>
#include <span>

#include "kernels/core/hash.h"
#include "kernels/core/text.h"

namespace troupe {

bool KeyCheck::open() {
  constexpr std::size_t kDeepest = 32;
  require(open_.size() < kDeepest, code_, place_, "nested too deeply",
          "correct this file");
  open_.emplace_back();
  return true;
}

bool KeyCheck::key(std::string_view text) {
  const std::uint64_t hash = xxh3_64(std::as_bytes(std::span(text)));
  if (names_it_ && hash == repeated_) {
    throw Error(code_, place_, "duplicate key " + in_quotes(text),
                "correct this file");
  }
  open_.back().push_back(hash);
  return true;
}

bool KeyCheck::close() {
  std::vector<std::uint64_t>& hashes = open_.back();
  std::ranges::sort(hashes);
  const auto twice = std::ranges::adjacent_find(hashes);
  if (twice != hashes.end() && !names_it_) {
    repeated_ = *twice;
    return false;
  }
  open_.pop_back();
  return true;
}

KeyCheck KeyCheck::named() const {
  KeyCheck check(place_, code_);
  check.repeated_ = repeated_;
  check.names_it_ = true;
  return check;
}

}  // namespace troupe
