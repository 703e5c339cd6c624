#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "net/link_session.h"
#include "net/value_transfer.h"
#include "tests/simulator/link_wire.h"
#include "tests/simulator/symbols.h"

namespace troupe::actors::simulator {

/// A mistake that is put into the ends of links. It changes what the policies
/// of net ask for.
struct LinkSabotage {
  std::function<void(std::vector<net::SessionCommand>&)> of_session = {};
  std::function<void(std::vector<net::AskerCommand>&)> of_asker = {};
  std::function<void(std::vector<net::HolderCommand>&)> of_holder = {};
  /// The listener goes on with sessions that it has said to be lost.
  bool resumes_lost_sessions = false;
};

/// Faults that a link met.
struct LinkCounts {
  int lost_in_record = 0;  ///< connections, between two pieces of a record
  int duplicates = 0;      ///< pieces of records that came again
  int waits_for_room = 0;  ///< records that had to wait for credit
};

/// How long the ends of a link wait.
struct LinkTimes {
  Duration lease = std::chrono::seconds(1);
  Duration beat_interval = std::chrono::milliseconds(100);
  Duration greeting_deadline = std::chrono::seconds(5);
  std::size_t room = std::size_t{768} << 10U;  ///< see net::HubOptions
};

/// Whom the ends of a link tell: what a net::LinkHandler hears.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  /// `LinkPair::due` is to be called then with `what`.
  virtual void wake_link(int link, std::size_t what, TimePoint when) = 0;
  virtual void link_up(int link, Side side) = 0;
  virtual void round_trip_measured(int link, Side side, Duration taken) = 0;
  virtual void letter_arrived(int link, Side side, std::uint64_t letter) = 0;
  virtual void value_wanted(int link, Side side, net::WantId want,
                            const std::string& key) = 0;
  /// The fault that cut_in_record planned has come.
  virtual void link_cut(int link) = 0;
  /// The side knows nothing of the link any more. `loss`: as net::Ended.
  virtual void link_ended(int link, Side side,
                          const std::optional<net::Loss>& loss) = 0;
};

/// The link of one process to the coordinator's, in virtual time: the policies
/// of net at both ends, the wire between them, and around the policies what
/// their hubs do (net/zmq_loop.h) and what keeps records that have no room
/// (actors/remote/mail.h). A record is a letter's number and so many bytes.
/// Thread: one.
class LinkPair {
 public:
  /// Who asked for a value gets it, or nothing.
  using Taker = std::function<void(std::optional<Symbol>)>;

  /// Keeps references to `listener` and `sabotage`. `number`: for the listener.
  LinkPair(int number, const NetModel& model, const LinkTimes& times,
           Random random, LinkListener& listener, const LinkSabotage& sabotage);

  /// The member's side greets.
  void dial(TimePoint now);
  /// Delivered once and in order, unless the link is lost.
  void post(Side from, std::uint64_t letter, std::size_t bytes, TimePoint now);
  void fetch(Side from, const std::string& key, Taker taker, TimePoint now);
  /// Answers a question that this side heard; nothing: it has not got it.
  void give(Side from, net::WantId want, std::optional<Symbol> symbol,
            TimePoint now);
  /// Says good-bye.
  void leave(Side side, const std::string& sentence, TimePoint now);
  /// The process ends without a word.
  void kill(Side side);
  void due(std::size_t what, TimePoint now);
  /// Of wake_link's `what`: who is to run.
  [[nodiscard]] static Side runner_of(std::size_t what);

  /// All connections break.
  void cut(Duration down, bool lingers, TimePoint now);
  /// The control lane's connection breaks when the first piece of the next
  /// record of several has arrived.
  void cut_in_record() { cuts_in_record_ = true; }
  /// Nothing gets to this side before `until`.
  void block(Side to, TimePoint until) { wire_.block(to, until); }

  [[nodiscard]] bool is_up(Side side) const { return end(side).is_up; }
  [[nodiscard]] bool has_ended(Side side) const { return end(side).has_ended; }
  /// Questions of this side that have no end yet.
  [[nodiscard]] std::size_t num_fetches(Side side) const {
    return end(side).fetches.size();
  }
  [[nodiscard]] const LinkCounts& counts() const { return counts_; }

 private:
  struct Letter {
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };
  struct End {
    std::optional<net::LinkSession> session;
    net::ValueAsker asker;
    net::ValueHolder holder;
    bool is_up = false;
    bool has_ended = false;
    std::optional<TimePoint> due;
    // What waits for room.
    std::deque<Letter> waiting;
    std::size_t room = 0;
    bool wants_room = false;
    // Questions.
    net::FetchId last_fetch = 0;
    std::map<net::FetchId, Taker> fetches;
    // What has arrived: for counts and faults.
    std::uint64_t seen = 0;  ///< pieces in a row
    bool is_in_record = false;
  };

  [[nodiscard]] End& end(Side side) { return ends_[index_of(side)]; }
  [[nodiscard]] const End& end(Side side) const {
    return ends_[index_of(side)];
  }
  [[nodiscard]] net::SessionOptions options(const std::string& peer);
  void hear(Side side, const net::SessionEvent& event, TimePoint now);
  void hear(Side side, const net::AskerEvent& event, TimePoint now);
  void hear(Side side, const net::HolderEvent& event, TimePoint now);
  void arrived(const LinkWire::Arrived& arrived, Side side, TimePoint now);
  void count(End& end, const net::FrameHead& head, TimePoint now);
  void timer(Side side, TimePoint now);
  void schedule(Side side);
  void send(Side from, net::Transmit frame, TimePoint now);
  void flush(Side side, TimePoint now);
  void made_room(Side side, std::size_t room, TimePoint now);
  void came_up(Side side, TimePoint now);
  void lost(Side side, const std::optional<net::Loss>& loss, TimePoint now);
  void cut(net::Lane lane, Duration down, bool lingers, TimePoint now);

  int number_;
  Duration reconnect_;
  LinkTimes times_;
  Random random_;
  LinkListener& listener_;
  const LinkSabotage& sabotage_;
  LinkWire wire_;
  std::array<End, kNumSides> ends_;
  bool cuts_in_record_ = false;
  LinkCounts counts_;
};

}  // namespace troupe::actors::simulator
