#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "net/link.h"

// What travels between two hubs. A frame is a head of kHeadBytes and a payload.
//
//   bytes   0  magic "TLNK"        24  a, b, c, d: numbers of 8 bytes
//           4  version, 2 bytes    56  XXH3-64 of the payload (of a chunk: of
//           6  kind, 7 flags           the whole value, in its last chunk)
//           8  session, 16 bytes   64  XXH3-64 of bytes 0 to 63
//
// Head and payload are one message. Only the payload of a larger chunk is a
// separate message, behind the message of its head, so that it is sent without
// a copy. Never a message of two parts: libzmq 4.3 aborts the process if a
// connection breaks between them while its socket is being closed
// (session_base_t::clean_pipes).
//
// All numbers are little-endian. Magic, version, kind, and that the payload of
// a `refuse` is a sentence, are the same in every version.

namespace troupe::net {

enum class Lane : std::uint8_t { control, values, beats };
inline constexpr std::size_t kNumLanes = 3;

/// In brackets: what a, b, c and d hold. "next": the sequence number of the
/// next record that the sender of the frame waits for.
enum class FrameKind : std::uint8_t {
  hello = 1,  ///< dialler's greeting [lease in ms, bytes of the role]
  welcome,    ///< listener's greeting [as hello]
  refuse,     ///< no: a sentence
  bye,        ///< the session ends: a sentence
  record,     ///< part of a record [sequence number, next, round]
  have,       ///< [last sequence number sent, next, round, round of a gap]
  beat,       ///< [stamp, echoed stamp, ns since that arrived]
  want,       ///< a question [transfer, from, until, round]: the key
  found,      ///< an answer [transfer, total bytes, round]: sizes of the parts
  chunk,      ///< [transfer, offset, round, 0 or size]: bytes of the value
  gone,       ///< no value [transfer]
  here,       ///< where an answer is [transfer, next offset, round]
  done,       ///< the asker needs no more [transfer]
};

/// Of `bye`: the sender does not know the session.
inline constexpr std::uint8_t kForgotten = 1;
/// Of `record`: the next frame goes on with it.
inline constexpr std::uint8_t kMore = 1;
/// Of `have`: frames before one of round d have not arrived.
inline constexpr std::uint8_t kGap = 1;
/// Of `have`: the sender waits to hear what has arrived.
inline constexpr std::uint8_t kAsk = 2;
/// Of `want`: answer at once, so that the asker sees missing bytes.
inline constexpr std::uint8_t kProbe = 1;
/// Of `want`: `found` has not arrived.
inline constexpr std::uint8_t kNotFound = 2;
/// Of `gone`: the transfer is not known; ask again.
inline constexpr std::uint8_t kUnknown = 1;
/// Of `chunk`: the last one.
inline constexpr std::uint8_t kLast = 1;
/// Of `chunk`: the next message of the connection is its payload, of d bytes.
inline constexpr std::uint8_t kFollows = 2;

inline constexpr std::size_t kHeadBytes = 72;
/// The payload of a larger chunk follows its head.
inline constexpr std::size_t kMostInlineChunk = std::size_t{8} << 10U;
/// The most bytes of a payload. A record is cut into such pieces.
inline constexpr std::size_t kMostPayloadBytes = std::size_t{1} << 20U;

/// Each side draws one half at random, so third parties cannot guess the id.
struct SessionId {
  std::uint64_t dialler = 0;
  std::uint64_t listener = 0;  ///< 0 in a hello

  friend auto operator<=>(const SessionId&, const SessionId&) = default;
};

struct FrameHead {
  FrameKind kind{};
  std::uint8_t flags = 0;
  SessionId session;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  std::uint64_t d = 0;
  std::uint64_t value_hash = 0;  ///< of a last chunk
};

/// Event of the policies: a frame of the peer. The payload is valid during the
/// call.
struct FrameArrived {
  FrameHead head;
  std::span<const std::byte> payload;
};
/// Event of the policies: the time that `next_deadline` named.
struct Woken {};
/// Command of the policies: send a frame.
struct Transmit {
  FrameHead head;
  SharedBytes payload;
};

[[nodiscard]] Lane lane_of(FrameKind kind) noexcept;

/// The bytes of the head. Thread: any.
[[nodiscard]] std::array<std::byte, kHeadBytes> encode_head(
    const FrameHead& head, std::span<const std::byte> payload);

enum class FrameState : std::uint8_t {
  good,
  alien,    ///< not a frame of ours, or damaged
  version,  ///< of another version: only `kind` and `version` are known
};

struct ReadHead {
  FrameState state = FrameState::alien;
  std::uint16_t version = 0;
  FrameHead head;
};

/// Reads bytes of unknown origin. Thread: any.
[[nodiscard]] ReadHead read_head(std::span<const std::byte> head,
                                 std::span<const std::byte> payload);

/// A greeting as payload of `hello` and `welcome`: role, then record.
[[nodiscard]] SharedBytes greeting_payload(const Greeting& greeting);
/// A sentence as payload, cut at kMostSentenceBytes.
[[nodiscard]] SharedBytes sentence_payload(std::string sentence);
/// A peer's sentence, made safe to print.
[[nodiscard]] std::string sentence_of(std::span<const std::byte> payload);
/// What a hello of another version is answered with.
[[nodiscard]] Transmit refuse_version(std::uint16_t version);
/// The characters of bytes.
[[nodiscard]] inline std::string_view text_of(
    std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace troupe::net
