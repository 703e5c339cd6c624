// libFuzzer target: any bytes as the files of a tokenizer and a prompt. Built
// and run by scripts/fuzz_tokenizers.sh.
// The input is parts that each begin with a byte 0xff and a letter: which file
// the part is (see kNames), or 'p' for the prompt.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"
#include "models/text/tokenizer_files.h"
#include "models/text/unicode.h"
#include "tests/core/allocation_guard.h"

namespace {

using troupe::models::TokenizerFiles;

/// The most memory that the reader may hold for one input: a multiple of the
/// input's size, plus a constant.
constexpr std::size_t kMostPerByte = 512;
constexpr std::size_t kMostAnyway = std::size_t{4} << 20U;

constexpr std::array<std::pair<char, std::string_view>, 7> kNames = {{
    {'j', "tokenizer.json"},
    {'v', "vocab.json"},
    {'m', "merges.txt"},
    {'s', "spiece.model"},
    {'c', "tokenizer_config.json"},
    {'t', "special_tokens_map.json"},
    {'a', "added_tokens.json"},
}};

struct Input {
  TokenizerFiles files;
  std::string prompt;
};

Input parts_of(std::string_view bytes) {
  Input input;
  input.files.folder = "folder";
  while (!bytes.empty()) {
    bytes.remove_prefix(1);
    const char letter = bytes.empty() ? 'p' : bytes.front();
    bytes.remove_prefix(bytes.empty() ? 0 : 1);
    std::size_t end = bytes.find('\xff');
    // A binary file may contain the separator byte: two in a row stand for one
    // byte of the file.
    std::string text;
    while (end != std::string_view::npos && end + 1 < bytes.size() &&
           bytes[end + 1] == '\xff') {
      text += bytes.substr(0, end + 1);
      bytes.remove_prefix(end + 2);
      end = bytes.find('\xff');
    }
    end = std::min(end, bytes.size());
    text += bytes.substr(0, end);
    bytes.remove_prefix(end);
    if (letter == 'p') {
      input.prompt = text;
    }
    for (const auto& [known, name] : kNames) {
      if (letter == known) {
        input.files.texts[std::string(name)] = text;
      }
    }
  }
  return input;
}

void check(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void encode(const troupe::models::Tokenizer& tokenizer,
            const std::string& prompt) {
  (void)tokenizer.with_all_vectors(prompt);
  for (const std::int64_t length : {2, 77}) {
    const auto tokens = tokenizer.encode(prompt, length);
    check(static_cast<std::int64_t>(tokens.ids.size()) == length);
    check(tokens.length >= 1 && tokens.length <= length && tokens.cut >= 0);
    check(troupe::models::is_utf8(tokens.cut_text));
    for (const std::int32_t id : tokens.ids) {
      check(id >= 0 && id < tokenizer.vocab_size());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const Input input = parts_of({reinterpret_cast<const char*>(data), size});
  const troupe::AllocationGuard guard(kMostPerByte * size + kMostAnyway);
  try {
    const auto tokenizer = troupe::models::make_tokenizer(input.files);
    encode(*tokenizer, "a photo of a cat");
    encode(*tokenizer, input.prompt);
  } catch (const troupe::Error& error) {
    check(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
  return 0;
}
