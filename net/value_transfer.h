#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/clock.h"
#include "kernels/core/hash.h"
#include "net/link.h"
#include "net/link_frame.h"

// How values get over one link: the asker's side and the holder's.
//
//   asker                            holder
//     ── want, first credit ──────▶    asks its process
//     ◀── found, chunks ───────────    as far as the credit goes
//     ── want, more credit ───────▶
//     ◀── chunks, hash ────────────
//     ── done ────────────────────▶    lets go of the bytes
//
// The asker alone has timers: if nothing comes it asks where the answer is, and
// what was lost is sent again in a new *round*. The holder answers questions.
// Both are policies without socket, clock or thread; frames may be lost,
// doubled and overtaken.

namespace troupe::net {

/// What the holder may send before the asker knows how large the value is.
inline constexpr std::size_t kFirstCredit = std::size_t{256} << 10U;
/// Bytes of a value that the holder may send beyond the bytes that have
/// arrived.
inline constexpr std::size_t kValueWindow = std::size_t{4} << 20U;
/// Values larger than kFirstCredit that are under way at once, per link.
inline constexpr std::size_t kMostUnderWay = 4;
/// Questions that are open at once, per link. Others wait at the asker.
inline constexpr std::size_t kMostOpenWants = 1024;
/// Bytes of a chunk. With smaller ones threads take turns more often: 2 GB/s
/// over ipc with 256 KiB, 3 GB/s with 1 MiB.
inline constexpr std::size_t kChunkBytes = kMostPayloadBytes;

/// Names a question for a value that this hub asked, from 1 on.
using FetchId = std::uint64_t;

/// Event of both: the peer is lost. `what`: a sentence about the loss.
struct LinkClosed {
  std::string what;
};

// Events of the asker, beside FrameArrived, Woken and LinkClosed.
struct AskFor {
  FetchId fetch = 0;  ///< larger than all before
  std::string key;
  std::size_t most_bytes = 0;
  TimePoint deadline;
  Duration silence{};  ///< as FetchOptions::silence
};
using AskerEvent = std::variant<FrameArrived, Woken, LinkClosed, AskFor>;
struct FetchEnded {
  FetchId fetch = 0;
  Fetched fetched;
};
using AskerCommand = std::variant<Transmit, FetchEnded>;

/// Asks a peer for values and puts them together. Thread: one.
class ValueAsker {
 public:
  /// `peer`: what sentences call it.
  explicit ValueAsker(std::string peer) : peer_(std::move(peer)) {}
  /// Sentences use the new name from now on.
  void rename(std::string peer) { peer_ = std::move(peer); }

  [[nodiscard]] std::vector<AskerCommand> on(const AskerEvent& event,
                                             TimePoint now);
  /// When to send Woken; it may be sooner than needed.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  /// Questions without an end.
  [[nodiscard]] std::size_t num_open() const noexcept {
    return open_.size() + waiting_.size();
  }

 private:
  struct Transfer {
    AskFor ask;
    std::uint64_t round = 1;
    std::uint64_t until = kFirstCredit;  ///< how far the holder may send
    Duration patience{};                 ///< from a sign of life to a probe
    TimePoint probe_due;
    TimePoint heard;  ///< the last sign of life
    bool is_found = false;
    bool is_under_way = false;  ///< counts towards kMostUnderWay
    bool is_queued = false;     ///< waits for that
    Value parts;
    std::uint64_t total = 0;     ///< bytes
    std::uint64_t received = 0;  ///< bytes
    std::size_t part = 0;        ///< where the next byte goes
    std::size_t part_offset = 0;
    std::unique_ptr<Xxh3Stream> hash;

    /// For too long. Probes are answered by the peer's hub, not its process.
    [[nodiscard]] bool is_silent(TimePoint now) const {
      return ask.silence > Duration{} && !is_queued &&
             now - heard >= ask.silence;
    }
  };
  using Open = std::map<FetchId, Transfer>;

  void arrived(const FrameArrived& frame, TimePoint now);
  void found(Open::iterator at, const FrameArrived& frame, TimePoint now);
  [[nodiscard]] bool make_parts(Transfer& transfer,
                                std::span<const std::byte> sizes);
  void chunk(Open::iterator at, const FrameArrived& frame, TimePoint now);
  void gone(Open::iterator at, const FrameArrived& frame, TimePoint now);
  void here(Open::iterator at, const FrameArrived& frame, TimePoint now);
  void woken(TimePoint now);
  void open_waiting(TimePoint now);
  void start_queued(TimePoint now);
  void extend_credit(Transfer& transfer);
  void new_round(Transfer& transfer, TimePoint now);
  void sign_of_life(Transfer& transfer, TimePoint now);
  void want(Transfer& transfer, std::uint8_t flags);
  void store(Transfer& transfer, std::span<const std::byte> bytes);
  void end(Open::iterator at, FetchStatus status, const std::string& what,
           TimePoint now);
  void answer(FetchId fetch, FetchStatus status, const std::string& what);
  void done(FetchId fetch);

  std::string peer_;
  Open open_;
  std::deque<AskFor> waiting_;
  std::deque<FetchId> queue_;  ///< of is_queued
  std::size_t under_way_ = 0;
  std::optional<TimePoint> check_due_;  ///< no deadline is before it
  std::vector<AskerCommand> commands_;
};

// Events of the holder, beside FrameArrived, Woken and LinkClosed.
struct GiveValue {
  WantId want = 0;
  Value value;
};
struct GiveNothing {
  WantId want = 0;
};
using HolderEvent =
    std::variant<FrameArrived, Woken, LinkClosed, GiveValue, GiveNothing>;
struct Wanted {
  WantId want = 0;
  std::string key;
};
using HolderCommand = std::variant<Transmit, Wanted>;

/// Answers a peer's questions. Thread: one.
class ValueHolder {
 public:
  /// Its questions are numbered from `first_want` on.
  explicit ValueHolder(WantId first_want) : next_want_(first_want) {}

  [[nodiscard]] std::vector<HolderCommand> on(const HolderEvent& event,
                                              TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const {
    return open_.empty() ? std::nullopt : sweep_due_;
  }
  /// Questions that are held.
  [[nodiscard]] std::size_t num_open() const noexcept { return open_.size(); }

 private:
  struct Answer {
    WantId want = 0;
    std::uint64_t round = 0;
    std::uint64_t until = 0;
    TimePoint last_heard;
    std::optional<Value> value;
    std::vector<std::uint64_t> ends;  ///< offset behind each part
    std::uint64_t total = 0;
    std::uint64_t sent = 0;    ///< offset of the next chunk
    std::uint64_t hashed = 0;  ///< bytes in `hash`
    bool is_whole = false;     ///< the last chunk went out in this round
    std::unique_ptr<Xxh3Stream> hash;
  };
  using Open = std::map<std::uint64_t, Answer>;  ///< by transfer

  void want(const FrameArrived& frame, TimePoint now);
  [[nodiscard]] Open::iterator begin(const FrameArrived& frame);
  void sweep(TimePoint now);
  void give(const GiveValue& event);
  void give_nothing(WantId want);
  void forget(Open::iterator at);
  void send_found(std::uint64_t transfer, const Answer& answer);
  void send_chunks(std::uint64_t transfer, Answer& answer);
  void send_chunk(std::uint64_t transfer, Answer& answer);

  WantId next_want_;
  Open open_;
  std::map<WantId, std::uint64_t> transfers_;  ///< of what is not answered
  std::optional<TimePoint> sweep_due_;  ///< when silent askers are forgotten
  std::vector<HolderCommand> commands_;
};

}  // namespace troupe::net
