#include "kernels/core/hash.h"

#include <xxhash.h>

#include <new>
#include <string_view>

namespace troupe {

struct Xxh3Stream::State {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> xxh{XXH3_createState()};
};

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  if (!state_->xxh) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(state_->xxh.get());
}

Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    XXH3_64bits_update(state_->xxh.get(), bytes.data(), bytes.size());
  }
}

std::uint64_t Xxh3Stream::digest() const {
  return XXH3_64bits_digest(state_->xxh.get());
}

std::string to_hex(std::uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4U) {
    text[i] = kDigits[value & 0xfU];
  }
  return text;
}

}  // namespace troupe
