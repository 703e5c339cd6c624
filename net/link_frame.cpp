#include "net/link_frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "kernels/core/hash.h"
#include "kernels/core/text.h"

namespace troupe::net {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint32_t kFrameMagic = 0x4b4e4c54;  // "TLNK"
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kKindAt = 6;
constexpr std::size_t kPayloadHashAt = 56;
constexpr std::size_t kHashAt = 64;

template <typename T>
void put(std::byte* at, T value) noexcept {
  std::memcpy(at, &value, sizeof(T));
}

template <typename T>
[[nodiscard]] T get(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

[[nodiscard]] bool is_known(std::uint8_t kind) noexcept {
  return kind >= static_cast<std::uint8_t>(FrameKind::hello) &&
         kind <= static_cast<std::uint8_t>(FrameKind::done);
}

}  // namespace

Lane lane_of(FrameKind kind) noexcept {
  if (kind == FrameKind::beat) {
    return Lane::beats;
  }
  return kind < FrameKind::want ? Lane::control : Lane::values;
}

std::array<std::byte, kHeadBytes> encode_head(
    const FrameHead& head, std::span<const std::byte> payload) {
  std::array<std::byte, kHeadBytes> bytes{};
  put(bytes.data(), kFrameMagic);
  put(bytes.data() + kVersionAt, kLinkVersion);
  put(bytes.data() + kKindAt, static_cast<std::uint8_t>(head.kind));
  put(bytes.data() + kKindAt + 1, head.flags);
  const std::uint64_t numbers[] = {head.session.dialler,
                                   head.session.listener,
                                   head.a,
                                   head.b,
                                   head.c,
                                   head.d};
  std::memcpy(bytes.data() + 8, numbers, sizeof(numbers));
  put(bytes.data() + kPayloadHashAt,
      head.kind == FrameKind::chunk ? head.value_hash : xxh3_64(payload));
  put(bytes.data() + kHashAt, xxh3_64(std::span(bytes).first(kHashAt)));
  return bytes;
}

ReadHead read_head(std::span<const std::byte> head,
                   std::span<const std::byte> payload) {
  ReadHead read;
  if (head.size() < kKindAt + 1 ||
      get<std::uint32_t>(head.data()) != kFrameMagic ||
      payload.size() > kMostPayloadBytes) {
    return read;
  }
  const auto* bytes = head.data();
  read.version = get<std::uint16_t>(bytes + kVersionAt);
  const auto kind = get<std::uint8_t>(bytes + kKindAt);
  read.head.kind = static_cast<FrameKind>(kind);
  if (read.version != kLinkVersion) {
    read.state = FrameState::version;
    return read;
  }
  if (head.size() != kHeadBytes || !is_known(kind) ||
      get<std::uint64_t>(bytes + kHashAt) != xxh3_64(head.first(kHashAt))) {
    return read;
  }
  const auto payload_hash = get<std::uint64_t>(bytes + kPayloadHashAt);
  if (read.head.kind == FrameKind::chunk) {
    read.head.value_hash = payload_hash;
  } else if (payload_hash != xxh3_64(payload)) {
    return read;
  }
  read.head.flags = get<std::uint8_t>(bytes + kKindAt + 1);
  read.head.session = {get<std::uint64_t>(bytes + 8),
                       get<std::uint64_t>(bytes + 16)};
  read.head.a = get<std::uint64_t>(bytes + 24);
  read.head.b = get<std::uint64_t>(bytes + 32);
  read.head.c = get<std::uint64_t>(bytes + 40);
  read.head.d = get<std::uint64_t>(bytes + 48);
  read.state = FrameState::good;
  return read;
}

SharedBytes greeting_payload(const Greeting& greeting) {
  return share(greeting.role + greeting.record);
}

SharedBytes sentence_payload(std::string sentence) {
  sentence.resize(std::min(sentence.size(), kMostSentenceBytes));
  return share(std::move(sentence));
}

std::string sentence_of(std::span<const std::byte> payload) {
  return printable(text_of(payload), kMostSentenceBytes);
}

Transmit refuse_version(std::uint16_t version) {
  return {.head = {.kind = FrameKind::refuse},
          .payload = sentence_payload(
              "this side speaks version " + std::to_string(kLinkVersion) +
              " of the link protocol, not " + std::to_string(version))};
}

}  // namespace troupe::net
