#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/clock.h"
#include "net/link.h"
#include "net/link_frame.h"

namespace troupe::net {

// Events, beside FrameArrived and Woken.
/// The caller has seen that `room()` is at least `room_for(record.size)`.
struct SendRecord {
  SharedBytes record;
};
/// The process lets in a peer that asked to join.
struct Accept {
  std::string record;
  std::string name = {};  ///< as SessionOptions::peer from now on, if not empty
};
/// The process does not. It also ends a session that is up, with a good-bye.
struct Leave {
  std::string sentence;
};
/// A frame of another version came from the peer; `sentence`: the text of a
/// refusal.
struct OtherVersion {
  std::uint16_t version = 0;
  std::string sentence;
};
/// What the connection of a greeting met; `why` goes on after the peer's name.
struct ConnectionTrouble {
  std::string why;
  bool is_final = false;  ///< nothing will come
};
/// There is a connection to the peer, for the first time or again.
struct LaneOpened {
  Lane lane{};
};
/// The connection was closed: by the peer, by its system after a crash, or by
/// something between. No command follows at once.
struct LaneClosed {
  Lane lane{};
};
using SessionEvent =
    std::variant<FrameArrived, Woken, SendRecord, Accept, Leave, OtherVersion,
                 ConnectionTrouble, LaneOpened, LaneClosed>;

// Commands, beside Transmit.
struct Greeted {
  Greeting greeting;
};
struct CameUp {
  Greeting greeting;
};
struct DeliverRecord {
  std::string record;
};
struct DeliverBeat {
  std::optional<RoundTrip> round_trip;
};
/// The peer has received records that took so much room.
struct MadeRoom {
  std::size_t room = 0;
};
/// Forget the session. Nothing follows.
struct Ended {
  std::optional<Loss> loss;  ///< none: this process ended it
};
using SessionCommand = std::variant<Transmit, Greeted, CameUp, DeliverRecord,
                                    DeliverBeat, MadeRoom, Ended>;

struct SessionOptions {
  std::string peer;      ///< what sentences call it
  std::string role;      ///< ours
  std::uint64_t random;  ///< our half of the session's name
  Duration lease{};
  Duration beat_interval{};
  Duration reconnect_grace{};
  Duration greeting_deadline{};
  std::size_t room = 0;
};

/// The room of a record: its bytes, and the memory of its bookkeeping.
[[nodiscard]] constexpr std::size_t room_for(std::size_t bytes) noexcept {
  return bytes + 256;
}

/// As sentences to people have it: "2000 ms".
[[nodiscard]] std::string to_text(Duration duration);

/// One session with one peer: greeting, records, beats, and its end.
///
///   dialling ──welcome──▶ up ──lease, closed, bye, breach──▶ ended
///      └──refused, deadline──────────────────────────────────▶ ┘
///   listening ──accepted──▶ up
///      └──refused, deadline──▶ ended
///
/// Records are numbered pieces, acknowledged by the number of the next one that
/// the receiver waits for. A receiver that sees or learns of a later piece asks
/// for the rest of a *round*; the sender counts the round up and sends all
/// again from there. So one loss causes one repetition, even if the receiver
/// reports the loss several times. While something is not acknowledged the
/// sender says four times a second how far it has sent: a receiver with a gap
/// asks.
///
/// The side that dialled speaks on each lane four times in a lease at least:
/// the other learns from it where its newest connection is.
///
/// A control lane that is dead while beats arrive (a connection that something
/// between the hosts has forgotten) ends the session after five leases. So does
/// a beats lane that is never made while the control lane lives.
///
/// A crash closes the connections of a process at once. A short disturbance
/// closes connections, too; then the side that dialled reconnects. So a session
/// without open connections ends after a grace (`HubOptions::reconnect_grace`),
/// unless a connection is made again. Frames that arrive meanwhile were sent
/// before and do not count. Before the first measured round trip the time of a
/// new connection is unknown, and the lease alone counts.
///
/// A long time without events means that this process did not run; then the
/// peer gets half a lease to be heard before it is lost.
///
/// Thread: one. Frames may be lost, doubled and overtaken.
class LinkSession {
 public:
  /// The side that dials.
  [[nodiscard]] static LinkSession dialling(SessionOptions options,
                                            std::string record, TimePoint now);
  /// The side that was dialled. Its first event is the hello.
  [[nodiscard]] static LinkSession listening(SessionOptions options,
                                             TimePoint now);

  [[nodiscard]] std::vector<SessionCommand> on(const SessionEvent& event,
                                               TimePoint now);
  /// When to send Woken; none once the session has ended.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const SessionId& id() const noexcept { return id_; }
  [[nodiscard]] bool is_up() const noexcept { return state_ == State::up; }
  /// What sentences call the peer.
  [[nodiscard]] const std::string& peer() const noexcept {
    return options_.peer;
  }
  /// For records that have not been acknowledged.
  [[nodiscard]] std::size_t room() const noexcept { return room_; }

 private:
  enum class State : std::uint8_t { dialling, listening, up, ended };
  struct Piece {
    SharedBytes bytes;
    bool more = false;
    std::size_t room = 0;  ///< of the record, with its last piece
  };

  LinkSession(SessionOptions options, State state, TimePoint now);

  void arrived(const FrameArrived& frame, TimePoint now);
  void arrived_up(const FrameArrived& frame, TimePoint now);
  void hello(const FrameArrived& frame, TimePoint now);
  void welcome(const FrameArrived& frame, TimePoint now);
  void record(const FrameArrived& frame, TimePoint now);
  void have(const FrameArrived& frame, TimePoint now);
  void beat(const FrameArrived& frame, TimePoint now);
  void woken(TimePoint now);
  [[nodiscard]] bool is_silent(TimePoint now);
  [[nodiscard]] TimePoint beats_silent_at() const;
  [[nodiscard]] TimePoint silent_at() const;
  void send(const SendRecord& event, TimePoint now);
  void accept(const Accept& event, TimePoint now);
  void leave(const Leave& event);
  void other_version(const OtherVersion& event);
  void trouble(const ConnectionTrouble& event);
  void lane_opened(Lane lane, TimePoint now);
  void lane_closed(Lane lane, TimePoint now);
  [[nodiscard]] bool is_closed(TimePoint now);
  [[nodiscard]] Duration grace() const;

  void come_up(const FrameHead& head, TimePoint now);
  [[nodiscard]] bool acknowledged(std::uint64_t next);
  void send_piece(std::uint64_t sequence);
  void send_have(std::uint8_t flags, TimePoint now);
  void send_here(TimePoint now);
  [[nodiscard]] bool has_dialled() const noexcept;
  void send_hello(TimePoint now);
  void send_welcome();
  void send_beat(TimePoint now);
  void said(TimePoint now);
  void report_gap(std::uint64_t round, bool again, TimePoint now);
  void breach(const std::string& what);
  [[nodiscard]] Loss loss_of(LossCause cause, const std::string& does) const;
  void end(std::optional<Loss> loss);
  void transmit(FrameHead head, SharedBytes payload = {});
  [[nodiscard]] std::uint64_t last_sent() const noexcept;

  SessionOptions options_;
  State state_;
  SessionId id_;
  std::string greeting_;  ///< our record
  Greeting theirs_;
  std::string trouble_;   ///< the newest
  TimePoint start_;       ///< of the greeting
  TimePoint greet_due_;   ///< the next hello
  TimePoint last_event_;  ///< whatever it was

  // Sending. pieces_[0] has the number first_.
  std::deque<Piece> pieces_;
  std::uint64_t first_ = 1;
  std::uint64_t round_ = 1;
  std::size_t room_;
  TimePoint have_due_;  ///< the next `have`, whatever happens
  TimePoint control_heard_;
  TimePoint here_due_;  ///< the next sign on the values lane

  // Receiving.
  std::uint64_t next_ = 1;
  std::string partial_;
  std::size_t unsaid_ = 0;  ///< bytes received since we said so
  std::uint64_t gap_round_ = 0;
  std::uint64_t gap_next_ = 0;

  // Beats.
  Duration beat_interval_;
  TimePoint beat_due_;
  TimePoint last_heard_;
  std::uint64_t their_stamp_ = 0;
  TimePoint their_stamp_at_;
  std::optional<Duration> round_trip_;  ///< smoothed

  // Connections, as far as the shell has told.
  std::array<bool, kNumLanes> is_open_{};
  /// All are closed: the next look, and how many there will be.
  TimePoint closed_due_ = TimePoint::max();
  int looks_left_ = 0;

  std::vector<SessionCommand> commands_;
};

}  // namespace troupe::net
