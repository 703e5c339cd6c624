#include "net/link_session.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::net {
namespace {

using std::chrono::milliseconds;

/// Between two hellos.
constexpr Duration kGreetAgain = milliseconds(250);

[[nodiscard]] std::uint64_t in_ms(Duration duration) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(duration).count());
}

/// The role has b bytes; the rest is the record.
[[nodiscard]] bool is_greeting(const FrameArrived& frame) noexcept {
  const std::size_t size = frame.payload.size();
  return frame.head.b <= std::min(size, kMostSentenceBytes) &&
         size - frame.head.b <= kMostGreetingBytes;
}

/// The longest that an acknowledgement waits for a record to ride on.
constexpr Duration kSayLater = milliseconds(5);
/// Received bytes that are acknowledged at once.
constexpr std::size_t kSayAtOnce = std::size_t{256} << 10U;
/// Between two words on how far we have sent, while something is open.
constexpr Duration kAskAgain = milliseconds(250);
/// Bytes of one piece of a record: others on the lane need not wait long.
constexpr std::size_t kPieceBytes = std::size_t{256} << 10U;

/// How many leases the control lane may be silent while beats arrive.
constexpr int kControlLeases = 5;
/// Round trips until something arrives over a new connection: one for tcp, two
/// for ZeroMQ's greeting, two for CURVE, half a one for the frame.
constexpr int kReconnectRoundTrips = 6;
/// A grace is so many looks. If this process did not run for a while, that is
/// one of them, and the peer has the time of the others.
constexpr int kGraceLooks = 3;
/// A host is not on for longer (146 years, in ns).
constexpr std::uint64_t kMostStamp = std::uint64_t{1} << 62U;
/// What a new round trip counts in the smoothed one: 1/8, as in TCP (RFC 6298).
constexpr int kSmoothing = 8;

[[nodiscard]] std::uint64_t stamp_of(TimePoint now) noexcept {
  return static_cast<std::uint64_t>(
             std::chrono::nanoseconds(now.time_since_epoch()).count()) +
         1;  // 0 is none
}

/// The round trip of a beat that arrived at `now`, if the beat answers one of
/// ours. For the clocks, both directions are taken as equally long.
[[nodiscard]] std::optional<RoundTrip> round_trip_of(const FrameHead& head,
                                                     std::uint64_t now) {
  if (head.a > kMostStamp || head.b == 0 || head.b > now ||
      head.c > now - head.b) {
    return std::nullopt;
  }
  const std::chrono::nanoseconds taken(now - head.b - head.c);
  const std::chrono::nanoseconds since_sent(static_cast<std::int64_t>(now) -
                                            static_cast<std::int64_t>(head.a));
  return RoundTrip{taken, taken / 2 - since_sent};
}

}  // namespace

std::string to_text(Duration duration) {
  return std::to_string(in_ms(duration)) + " ms";
}

LinkSession::LinkSession(SessionOptions options, State state, TimePoint now)
    : options_(std::move(options)),
      state_(state),
      start_(now),
      greet_due_(now),
      last_event_(now),
      room_(options_.room),
      have_due_(now),
      control_heard_(now),
      here_due_(now),
      beat_interval_(options_.beat_interval),
      beat_due_(now),
      last_heard_(now),
      their_stamp_at_(now) {}

LinkSession LinkSession::dialling(SessionOptions options, std::string record,
                                  TimePoint now) {
  LinkSession session(std::move(options), State::dialling, now);
  session.id_.dialler = session.options_.random;
  session.greeting_ = std::move(record);
  return session;
}

LinkSession LinkSession::listening(SessionOptions options, TimePoint now) {
  return {std::move(options), State::listening, now};
}

std::vector<SessionCommand> LinkSession::on(const SessionEvent& event,
                                            TimePoint now) {
  if (state_ == State::ended) {
    return {};
  }
  if (now - last_event_ > options_.lease / 2) {
    // We did not run. What the peer said meanwhile may still be on its way.
    last_heard_ = std::max(last_heard_, now - options_.lease / 2);
    control_heard_ = std::max(control_heard_, now - options_.lease / 2);
  }
  last_event_ = now;
  std::visit(
      [&](const auto& it) {
        using Event = std::decay_t<decltype(it)>;
        if constexpr (std::is_same_v<Event, FrameArrived>) {
          arrived(it, now);
        } else if constexpr (std::is_same_v<Event, Woken>) {
          woken(now);
        } else if constexpr (std::is_same_v<Event, SendRecord>) {
          send(it, now);
        } else if constexpr (std::is_same_v<Event, Accept>) {
          accept(it, now);
        } else if constexpr (std::is_same_v<Event, Leave>) {
          leave(it);
        } else if constexpr (std::is_same_v<Event, OtherVersion>) {
          other_version(it);
        } else if constexpr (std::is_same_v<Event, LaneOpened>) {
          lane_opened(it.lane, now);
        } else if constexpr (std::is_same_v<Event, LaneClosed>) {
          lane_closed(it.lane, now);
        } else {
          trouble(it);
        }
      },
      event);
  return std::exchange(commands_, {});
}

std::optional<TimePoint> LinkSession::next_deadline() const {
  switch (state_) {
    case State::dialling:
      return std::min(greet_due_, start_ + options_.greeting_deadline);
    case State::listening:
      return start_ + options_.greeting_deadline;
    case State::up:
      return std::min({beat_due_, have_due_, silent_at(), closed_due_,
                       has_dialled() ? here_due_ : TimePoint::max()});
    case State::ended:
      break;
  }
  return std::nullopt;
}

void LinkSession::woken(TimePoint now) {
  if (state_ != State::up) {
    if (now >= start_ + options_.greeting_deadline) {
      const bool ours = state_ == State::listening;
      if (ours) {
        transmit({.kind = FrameKind::refuse},
                 sentence_payload("nobody answered the greeting within " +
                                  to_text(options_.greeting_deadline)));
      }
      end(Loss{LossCause::unreachable,
               options_.peer +
                   (ours ? " asked to join and was not answered within "
                         : " did not answer the greeting within ") +
                   to_text(options_.greeting_deadline) +
                   (trouble_.empty() ? "" : ": it " + trouble_),
               "it " + (trouble_.empty() ? "did not answer the greeting"
                                         : trouble_)});
    } else if (state_ == State::dialling && now >= greet_due_) {
      send_hello(now);
    }
    return;
  }
  if (is_silent(now) || is_closed(now)) {
    return;
  }
  if (now >= beat_due_) {
    send_beat(now);
  }
  if (now >= have_due_) {
    send_have(0, now);
  }
  if (has_dialled() && now >= here_due_) {
    send_here(now);
  }
}

void LinkSession::arrived(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.kind == FrameKind::hello) {
    hello(frame, now);
  } else if (state_ == State::up) {
    if (head.session == id_) {
      arrived_up(frame, now);
    }
  } else if (state_ == State::dialling && head.session.dialler == id_.dialler) {
    if (head.kind == FrameKind::welcome) {
      welcome(frame, now);
    } else if (head.kind == FrameKind::refuse) {
      end(loss_of(LossCause::refused,
                  "refused: " + sentence_of(frame.payload)));
    }
  }
}

void LinkSession::arrived_up(const FrameArrived& frame, TimePoint now) {
  switch (frame.head.kind) {
    case FrameKind::record:
      control_heard_ = now;
      record(frame, now);
      break;
    case FrameKind::have:
      control_heard_ = now;
      have(frame, now);
      break;
    case FrameKind::beat:
      beat(frame, now);
      break;
    case FrameKind::bye:
      if ((frame.head.flags & kForgotten) != 0) {
        end(Loss{LossCause::forgotten,
                 options_.peer + " does not know this session any more"});
      } else {
        end(Loss{LossCause::left,
                 options_.peer + " left: " + sentence_of(frame.payload)});
      }
      break;
    default:  // a doubled welcome, or what is not for the session
      break;
  }
}

void LinkSession::hello(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (state_ == State::up && head.session.dialler == id_.dialler &&
      options_.random == id_.listener) {
    send_welcome();  // the first one was lost
    return;
  }
  if (state_ != State::listening || id_.dialler != 0) {
    return;
  }
  if (head.session.dialler == 0 || !is_greeting(frame)) {
    end(Loss{LossCause::breach, options_.peer + " sent no good greeting"});
    return;
  }
  id_ = {head.session.dialler, options_.random};
  start_ = now;
  come_up(head, now);
  const std::string_view text = text_of(frame.payload);
  theirs_ = {std::string(text.substr(0, head.b)),
             std::string(text.substr(head.b))};
  commands_.emplace_back(Greeted{theirs_});
}

void LinkSession::welcome(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.session.listener == 0 || !is_greeting(frame)) {
    return;
  }
  id_ = head.session;
  state_ = State::up;
  come_up(head, now);
  const std::string_view text = text_of(frame.payload);
  commands_.emplace_back(CameUp{
      {std::string(text.substr(0, head.b)), std::string(text.substr(head.b))}});
  send_have(0, now);
  send_here(now);
  send_beat(now);
}

/// Beats as often as the peer's lease needs.
void LinkSession::come_up(const FrameHead& head, TimePoint now) {
  const Duration their_lease =
      milliseconds(std::clamp<std::uint64_t>(head.a, 10, 3'600'000));
  beat_interval_ = std::min(options_.beat_interval, their_lease / 8);
  last_heard_ = now;
  control_heard_ = now;
  said(now);
}

void LinkSession::accept(const Accept& event, TimePoint now) {
  if (state_ != State::listening || id_.dialler == 0) {
    return;
  }
  greeting_ = event.record;
  if (!event.name.empty()) {
    options_.peer = event.name;
  }
  state_ = State::up;
  last_heard_ = now;
  control_heard_ = now;
  beat_due_ = now;
  said(now);
  send_welcome();
  commands_.emplace_back(CameUp{theirs_});
}

void LinkSession::leave(const Leave& event) {
  const FrameKind kind =
      state_ == State::listening ? FrameKind::refuse : FrameKind::bye;
  transmit({.kind = kind}, sentence_payload(event.sentence));
  end(std::nullopt);
}

void LinkSession::other_version(const OtherVersion& event) {
  const std::string ours = std::to_string(kLinkVersion);
  std::string what = "speaks version " + std::to_string(event.version) +
                     " of the link protocol, this side version " + ours;
  if (!event.sentence.empty()) {
    what += "; it says: " + event.sentence;
  }
  if (state_ == State::dialling) {
    end(loss_of(LossCause::version, what));
  }
}

void LinkSession::trouble(const ConnectionTrouble& event) {
  trouble_ = event.why;
  if (event.is_final && state_ == State::dialling) {
    end(loss_of(LossCause::refused, trouble_));
  }
}

bool LinkSession::has_dialled() const noexcept {
  return id_.dialler == options_.random;
}

void LinkSession::send_here(TimePoint now) {
  transmit({.kind = FrameKind::here});
  here_due_ = now + options_.lease / 4;
}

void LinkSession::send_hello(TimePoint now) {
  transmit({.kind = FrameKind::hello,
            .a = in_ms(options_.lease),
            .b = options_.role.size()},
           greeting_payload({options_.role, greeting_}));
  greet_due_ = now + kGreetAgain;
}

void LinkSession::send_welcome() {
  transmit({.kind = FrameKind::welcome,
            .a = in_ms(options_.lease),
            .b = options_.role.size()},
           greeting_payload({options_.role, greeting_}));
}

void LinkSession::breach(const std::string& what) {
  transmit({.kind = FrameKind::bye},
           sentence_payload("this side broke the protocol: " + what));
  end(Loss{LossCause::breach, options_.peer + " broke the protocol: " + what});
}

/// `does` goes on after the peer's name.
Loss LinkSession::loss_of(LossCause cause, const std::string& does) const {
  return {cause, options_.peer + " " + does, "it " + does};
}

void LinkSession::end(std::optional<Loss> loss) {
  state_ = State::ended;
  pieces_.clear();
  partial_.clear();
  commands_.emplace_back(Ended{std::move(loss)});
}

void LinkSession::transmit(FrameHead head, SharedBytes payload) {
  head.session = id_;
  commands_.emplace_back(Transmit{head, std::move(payload)});
}

// ---- records

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

// ---- signs of life: beats, the lease, connections

/// When the beats lane has been silent for too long.
TimePoint LinkSession::beats_silent_at() const {
  if (their_stamp_ != 0) {
    return last_heard_ + options_.lease;
  }
  // Where many come at once, the connection of the first beat may be made long
  // after that of the greeting.
  return std::min(std::max(last_heard_, control_heard_) + options_.lease,
                  last_heard_ + kControlLeases * options_.lease);
}

TimePoint LinkSession::silent_at() const {
  return std::min(beats_silent_at(),
                  control_heard_ + kControlLeases * options_.lease);
}

/// Ends the session if the peer has been silent for too long.
bool LinkSession::is_silent(TimePoint now) {
  if (now < silent_at()) {
    return false;
  }
  const bool no_beats = now >= beats_silent_at();
  const std::string since = no_beats
                                ? " for " + to_text(options_.lease)
                                : " on its control lane for " +
                                      to_text(kControlLeases * options_.lease);
  transmit({.kind = FrameKind::bye},
           sentence_payload("nothing was heard of this side" + since));
  end(Loss{LossCause::silent, "nothing was heard of " + options_.peer + since});
  return true;
}

void LinkSession::lane_opened(Lane lane, TimePoint now) {
  is_open_[static_cast<std::size_t>(lane)] = true;
  closed_due_ = TimePoint::max();
  trouble_.clear();  // it is over
  if (state_ != State::up) {
    return;
  }
  // What was lost with the old connection is found out now, and not when
  // something would have been said anyway.
  if (lane == Lane::control) {
    send_have(0, now);
  } else if (has_dialled() && lane == Lane::values) {
    send_here(now);
  } else if (has_dialled()) {
    send_beat(now);
  }
}

void LinkSession::lane_closed(Lane lane, TimePoint now) {
  if (std::exchange(is_open_[static_cast<std::size_t>(lane)], false) &&
      std::ranges::count(is_open_, true) == 0 && state_ == State::up &&
      round_trip_) {
    looks_left_ = kGraceLooks;
    closed_due_ = now + grace() / kGraceLooks;
  }
}

Duration LinkSession::grace() const {
  return options_.reconnect_grace +
         kReconnectRoundTrips * round_trip_.value_or(Duration{});
}

/// Ends the session if all connections have been closed for too long.
bool LinkSession::is_closed(TimePoint now) {
  if (now < closed_due_) {
    return false;
  }
  if (--looks_left_ > 0) {
    closed_due_ = now + grace() / kGraceLooks;
    return false;
  }
  const std::string since = " for " + to_text(grace());
  transmit(
      {.kind = FrameKind::bye},
      sentence_payload("all connections of this side were closed" + since));
  end(Loss{LossCause::closed,
           "all connections of " + options_.peer + " were closed" + since});
  return true;
}

void LinkSession::send_beat(TimePoint now) {
  const Duration held = now - their_stamp_at_;
  transmit({.kind = FrameKind::beat,
            .a = stamp_of(now),
            .b = their_stamp_,
            .c = static_cast<std::uint64_t>(
                std::chrono::nanoseconds(held).count())});
  beat_due_ = now + beat_interval_;
}

void LinkSession::beat(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  if (head.a <= their_stamp_) {
    return;  // an older one: the latest wins
  }
  const bool is_first = their_stamp_ == 0;
  their_stamp_ = head.a;
  their_stamp_at_ = now;
  last_heard_ = now;
  const std::optional<RoundTrip> round_trip =
      round_trip_of(head, stamp_of(now));
  if (round_trip) {
    const Duration before = round_trip_.value_or(round_trip->taken);
    round_trip_ = before + (round_trip->taken - before) / kSmoothing;
  }
  commands_.emplace_back(DeliverBeat{round_trip});
  if (is_first) {
    send_beat(now);  // so that both sides soon know the round trip
  }
}

}  // namespace troupe::net
