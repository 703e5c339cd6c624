#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::models {

/// The character map of SentencePiece ("nmt_nfkc" and its like), applied as the
/// `tokenizers` library does: to a grapheme cluster shorter than 6 bytes as a
/// whole, otherwise to each character. A cluster of which only the beginning is
/// in the map becomes what the beginning becomes: the rest is lost. The
/// `tokenizers` library loses the rest, too, so the ids agree.
/// Source: spm_precompiled/src/lib.rs, tokenizers/src/normalizers/
/// precompiled.rs, and darts-clone for the units of the trie.
/// Thread: any.
class Charsmap {
 public:
  /// Changes nothing.
  Charsmap() = default;
  /// `blob`: the size of the trie in bytes (u32, little-endian), the units of
  /// the trie (u32), replacements that end with NUL. Every unit that a text can
  /// reach is checked. Errors: Errc::corrupt_file at `place`.
  Charsmap(std::string_view blob, std::string_view place);

  /// `text` is UTF-8, and so is the result.
  [[nodiscard]] std::string apply(std::string_view text) const;

 private:
  void read_trie(std::string_view bytes, std::string_view place);
  void check_trie(std::string_view place) const;
  /// Appends the replacement of the shortest beginning of `key` that has one;
  /// false: none has.
  bool replace(std::string_view key, std::string& to) const;

  std::vector<std::uint32_t> trie_;
  std::string replacements_;
};

}  // namespace troupe::models
