// Reads texts on standard input, prints the ids of each on a line of its own:
// what scripts/parity/tokens.py compares.
// usage: token_probe FOLDER LENGTH
//   FOLDER  a tokenizer; "bundled:NAME" one of ours
//   LENGTH  ids a text becomes; 0: as many as it has
// A text is its size in bytes (u32, little-endian), then the bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "models/text/bundled_tokenizers.h"
#include "models/text/tokenizer.h"

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 20U;

bool read(std::string& text) {
  unsigned char head[4];
  if (std::fread(head, 1, 4, stdin) != 4) {
    return false;
  }
  text.resize(head[0] | head[1] << 8U | head[2] << 16U | head[3] << 24U);
  return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

void run(const std::string& folder, std::int64_t length) {
  constexpr std::string_view kBundled = "bundled:";
  const auto tokenizer =
      folder.starts_with(kBundled)
          ? troupe::models::open_bundled_tokenizer(
                std::string_view(folder).substr(kBundled.size()))
          : troupe::models::open_tokenizer(folder);
  std::string text;
  while (read(text)) {
    const std::int64_t longest =
        length > 0 ? length
                   : std::min<std::int64_t>(
                         kMost, 3 * static_cast<std::int64_t>(text.size()) + 3);
    const auto tokens = tokenizer->encode(text, longest);
    const std::int64_t shown = length > 0 ? length : tokens.length;
    for (std::int64_t i = 0; i < shown; ++i) {
      std::printf("%s%d", i == 0 ? "" : " ", tokens.ids[i]);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: token_probe FOLDER LENGTH\n");
    return 2;
  }
  try {
    run(argv[1], std::atoll(argv[2]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "token_probe: %s\n", error.what());
    return 1;
  }
  return 0;
}
