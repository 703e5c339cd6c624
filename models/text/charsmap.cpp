#include "models/text/charsmap.h"

#include <algorithm>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/corrupt.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

/// Clusters of so many bytes or more are taken apart.
constexpr std::size_t kLongCluster = 6;
/// Bytes of the longest replacement. (That of U+FDFA under NFKC has 33.)
constexpr std::size_t kLongestReplacement = 256;

// A unit of the trie.
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000ffU; }
bool has_leaf(std::uint32_t unit) { return (unit >> 8U & 1U) != 0; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7fffffffU; }
/// Positions of children, and of the leaf, are this one XOR a byte.
std::uint64_t children(std::uint64_t position, std::uint32_t unit) {
  return position ^ (std::uint64_t{unit >> 10U} << ((unit & 0x200U) >> 6U));
}

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (unsigned i = 0; i < 4; ++i) {
    word |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])}
            << (8U * i);
  }
  return word;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob, std::string_view place) {
  if (blob.size() < 4 || word_at(blob, 0) > blob.size() - 4) {
    corrupt(place, "ends inside its trie: got " + std::to_string(blob.size()) +
                       " bytes");
  }
  const std::size_t trie_bytes = word_at(blob, 0);
  read_trie(blob.substr(4, trie_bytes), place);
  replacements_ = blob.substr(4 + trie_bytes / 4 * 4);
  if (!is_utf8(replacements_)) {
    corrupt(place, "character map: a replacement is not UTF-8");
  }
  check_trie(place);
}

void Charsmap::read_trie(std::string_view bytes, std::string_view place) {
  if (bytes.size() < 4) {
    corrupt(place, "character map: an empty trie");
  }
  trie_.reserve(bytes.size() / 4);
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    trie_.push_back(word_at(bytes, at));
  }
}

/// Visits every position that a text leads to, once.
void Charsmap::check_trie(std::string_view place) const {
  std::vector<bool> was_visited(trie_.size());
  std::vector<std::uint64_t> open = {0};
  while (!open.empty()) {
    const std::uint64_t position = open.back();
    open.pop_back();
    const std::uint32_t unit = trie_[position];
    const std::uint64_t base = children(position, unit);
    if ((base | 0xffU) >= trie_.size()) {
      corrupt(place, "the trie leads outside itself: unit " +
                         std::to_string(position));
    }
    if (position != 0 && has_leaf(unit)) {
      const std::size_t at = value(trie_[base]);
      const std::string_view rest =
          std::string_view(replacements_)
              .substr(std::min(at, replacements_.size()),
                      kLongestReplacement + 1);
      const bool begins =
          !rest.empty() &&
          (static_cast<unsigned char>(rest[0]) & 0xc0U) != 0x80U;
      if (!begins || rest.find('\0') == std::string_view::npos) {
        corrupt(
            place,
            "character map: a replacement that is none, or one of more than " +
                std::to_string(kLongestReplacement) + " bytes: unit " +
                std::to_string(position));
      }
    }
    for (std::uint32_t byte = 1; byte < 256; ++byte) {
      const std::uint64_t next = base ^ byte;
      if (label(trie_[next]) == byte && !was_visited[next]) {
        was_visited[next] = true;
        open.push_back(next);
      }
    }
  }
}

bool Charsmap::replace(std::string_view key, std::string& to) const {
  std::uint64_t base = children(0, trie_[0]);
  for (const char c : key) {
    const std::uint32_t byte = static_cast<unsigned char>(c);
    if (byte == 0) {
      return false;
    }
    const std::uint64_t position = base ^ byte;
    const std::uint32_t unit = trie_[position];
    if (label(unit) != byte) {
      return false;
    }
    base = children(position, unit);
    if (has_leaf(unit)) {
      const std::size_t begin = value(trie_[base]);
      to.append(replacements_, begin, replacements_.find('\0', begin) - begin);
      return true;
    }
  }
  return false;
}

std::string Charsmap::apply(std::string_view text) const {
  if (trie_.empty()) {
    return std::string(text);
  }
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view cluster = text.substr(0, cluster_size(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() < kLongCluster && replace(cluster, result)) {
      continue;
    }
    for (std::size_t at = 0; at < cluster.size();) {
      const std::string_view character =
          cluster.substr(at, first_character(cluster.substr(at)).size);
      if (!replace(character, result)) {
        result += character;
      }
      at += character.size();
    }
  }
  return result;
}

}  // namespace troupe::models
