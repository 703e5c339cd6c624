#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "net/link_session.h"

// What a session does for records.

namespace troupe::net {
namespace {

using std::chrono::milliseconds;

/// The longest that an acknowledgement waits for a record to ride on.
constexpr Duration kSayLater = milliseconds(5);
/// Received bytes that are acknowledged at once.
constexpr std::size_t kSayAtOnce = std::size_t{256} << 10U;
/// Between two words on how far we have sent, while something is open.
constexpr Duration kAskAgain = milliseconds(250);
/// Bytes of one piece of a record: others on the lane need not wait long.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

}  // namespace

void LinkSession::send(const SendRecord& event, TimePoint now) {
  const std::size_t room = room_for(event.record.size);
  require(state_ == State::up && room <= room_, Errc::internal, "link session",
          "a record was sent without room");
  room_ -= room;
  for (std::size_t begin = 0; begin < event.record.size;) {
    const std::size_t size = std::min(kPieceBytes, event.record.size - begin);
    const bool more = begin + size < event.record.size;
    // Shares the record's owner.
    std::shared_ptr<std::byte> at(event.record.data,
                                  event.record.data.get() + begin);
    pieces_.push_back({{std::move(at), size}, more, more ? 0 : room});
    send_piece(last_sent());
    begin += size;
  }
  said(now);
}

std::uint64_t LinkSession::last_sent() const noexcept {
  return first_ + pieces_.size() - 1;
}

void LinkSession::send_piece(std::uint64_t sequence) {
  const Piece& piece = pieces_[sequence - first_];
  transmit({.kind = FrameKind::record,
            .flags = piece.more ? kMore : std::uint8_t{0},
            .a = sequence,
            .b = next_,
            .c = round_},
           piece.bytes);
}

void LinkSession::have(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (!acknowledged(head.b)) {
    return;
  }
  const bool gap = (head.flags & kGap) != 0;
  if (gap && head.d == round_ && head.b == first_ && !pieces_.empty()) {
    ++round_;
    for (std::uint64_t at = first_; at <= last_sent(); ++at) {
      send_piece(at);
    }
    said(now);
  }
  if (head.a >= next_) {
    report_gap(head.c, !gap, now);
  } else if ((head.flags & kAsk) != 0) {
    have_due_ = std::min(have_due_, now + kSayLater);
  }
}

bool LinkSession::acknowledged(std::uint64_t next) {
  if (next > last_sent() + 1) {
    breach("it acknowledged records that were not sent");
    return false;
  }
  std::size_t room = 0;
  for (; first_ < next; ++first_) {
    room += pieces_.front().room;
    pieces_.pop_front();
  }
  if (room > 0) {
    room_ += room;
    commands_.emplace_back(MadeRoom{room});
  }
  return true;
}

void LinkSession::record(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (!acknowledged(head.b)) {
    return;
  }
  if (head.a > next_) {
    report_gap(head.c, false, now);
    return;
  }
  if (head.a < next_) {  // doubled; maybe our word was lost
    have_due_ = std::min(have_due_, now + kSayLater);
    return;
  }
  if (frame.payload.empty() ||
      partial_.size() + frame.payload.size() > kMostRecordBytes) {
    breach("it sent an empty record, or one that is too large");
    return;
  }
  ++next_;
  unsaid_ += frame.payload.size();
  partial_.append(text_of(frame.payload));
  if ((head.flags & kMore) == 0) {
    commands_.emplace_back(DeliverRecord{std::exchange(partial_, {})});
  }
  if (unsaid_ >= kSayAtOnce) {
    send_have(0, now);
  } else {
    have_due_ = std::min(have_due_, now + kSayLater);
  }
}

/// Once for each state of what is missing, unless `again`.
void LinkSession::report_gap(std::uint64_t round, bool again, TimePoint now) {
  if (!again &&
      (round < gap_round_ || (round == gap_round_ && next_ == gap_next_))) {
    return;
  }
  gap_round_ = round;
  gap_next_ = next_;
  send_have(kGap, now);
}

void LinkSession::send_have(std::uint8_t flags, TimePoint now) {
  transmit(
      {.kind = FrameKind::have,
       .flags = static_cast<std::uint8_t>(flags | (pieces_.empty() ? 0 : kAsk)),
       .a = last_sent(),
       .b = next_,
       .c = round_,
       .d = gap_round_});
  said(now);
}

/// What has just been sent says what has arrived here.
void LinkSession::said(TimePoint now) {
  unsaid_ = 0;
  have_due_ = now + (pieces_.empty() ? options_.lease / 4 : kAskAgain);
}

}  // namespace troupe::net
