#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/accepted_connections.h"
#include "net/endpoint.h"
#include "net/link_session.h"
#include "net/value_transfer.h"
#include "net/zmq_authenticator.h"
#include "net/zmq_poller.h"
#include "net/zmq_socket.h"

namespace troupe::net {

class HubLoop;

/// What callers of a hub and its thread share.
struct HubShared {
  using Job = std::function<void(HubLoop& loop, TimePoint now)>;
  struct Room {
    std::size_t free = 0;
    bool is_wanted = false;  ///< `send` had none
  };

  std::mutex mutex;
  std::vector<Job> jobs;         ///< for the hub's thread, in order
  std::map<PeerId, Room> rooms;  ///< of peers that are up
};

/// The hub's thread: sockets, policies, callbacks. What decides stands in the
/// policies; this carries frames and commands between them, the sockets and the
/// handler. Thread: the hub's, but for the constructor.
class HubLoop {
 public:
  HubLoop(ZmqContext context, const HubOptions& options, LinkHandler& handler,
          HubShared& shared);

  /// Until `stop`.
  void run();
  void wake() const { poller_.wake(); }

  // Jobs.
  void stop() { is_stopping_ = true; }
  struct Listening {
    std::shared_ptr<ZmqSocket> monitor;  ///< ends after the socket
    std::shared_ptr<ZmqSocket> socket;
    Transport transport{};
    bool has_users = false;  ///< its frames name whose key they come from
  };
  void add_listener(const Listening& listening);
  struct Dialled {
    std::string name;  ///< what sentences call the peer
    /// Of the lanes that say whether it lives; they end after the lanes.
    std::array<std::shared_ptr<ZmqSocket>, kNumLanes> monitors;
    std::array<std::shared_ptr<ZmqSocket>, kNumLanes> lanes;
    std::string record;
    Duration deadline{};
  };
  void add_dialled(PeerId peer, const Dialled& dialled, TimePoint now);
  void session_event(PeerId peer, const SessionEvent& event, TimePoint now);
  void fetch(PeerId peer, AskFor ask, FetchTaker taker, TimePoint now);
  void answer(WantId want, const HolderEvent& event, TimePoint now);

  /// A number for the next peer. Thread: any.
  PeerId take_peer_id() { return next_peer_++; }

 private:
  using Connection = std::pair<std::uint64_t, std::string>;  ///< source, route
  /// A chunk whose payload is the next message of a connection.
  struct HalfChunk {
    PeerId peer = 0;
    FrameHead head;
  };
  /// How frames get to a peer on one lane.
  struct LaneEnd {
    std::shared_ptr<ZmqSocket> socket;  ///< none: not heard on it yet
    std::uint64_t source = 0;
    std::string route;              ///< of a listener's socket
    int descriptor = -1;            ///< of a listener's connection
    std::uint64_t monitor = 0;      ///< of a dialled lane: its source
    TimePoint connected;            ///< of a dialled lane: when it was, last
    bool was_ended = false;         ///< at once then, by the other side
    std::vector<Transmit> waiting;  ///< until it is heard
  };
  struct Peer {
    Peer(PeerId number, LinkSession its_session, const std::string& name)
        : id(number),
          session(std::move(its_session)),
          asker(name),
          holder((number << 32U) + 1) {}

    PeerId id;
    LinkSession session;
    ValueAsker asker;
    ValueHolder holder;
    std::array<LaneEnd, kNumLanes> lanes;
    bool is_announced = false;  ///< the handler knows it
    bool is_answered = false;   ///< it was dialled, or let in
    bool has_user = false;
    std::string user;     ///< of its key
    std::string address;  ///< that the peer dialled from
    std::optional<TimePoint> due;
    Connection half_chunk;  ///< the key of its entry in half_chunks_
  };
  /// A socket that is watched.
  struct Source {
    std::shared_ptr<ZmqSocket> socket;
    PeerId peer = 0;        ///< 0: a listener
    Transport transport{};  ///< of a listener, and of its monitor
    bool has_users = false;
    bool is_monitor = false;    ///< of a listener, or of a peer's lane
    Lane lane{};                ///< of a monitor
    std::uint64_t monitor = 0;  ///< of a listener: its monitor's source
    /// Of a listener's monitor: the connection that ends next failed in its
    /// handshake.
    bool has_failed = false;
    int num_unknown = 0;  ///< connections that failed, of hosts not known
  };

  void take_jobs();
  void wake_due();
  void drain(std::uint64_t source);
  void drain_monitor(std::uint64_t id);
  void accepted_event(Source& monitor, const ZmqEvent& event);
  void handshake_failed(Source& monitor, const std::string& address);
  void closed(const AcceptedConnections::Owner& owner);
  void dialled_event(PeerId peer, Lane lane, const ZmqEvent& event);
  [[nodiscard]] static ConnectionTrouble trouble_of(LaneEnd& lane,
                                                    const ZmqEvent& event,
                                                    TimePoint now);
  void take_connection(Peer& peer, Lane lane, std::uint64_t id, ZmqFrame& frame,
                       TimePoint now);
  void stop_monitors(Peer& peer);
  void stop_watching(std::uint64_t source);
  /// A frame of unknown origin, and what has been read of it.
  struct Incoming {
    ReadHead read;
    std::span<const std::byte> payload;
  };
  [[nodiscard]] static Incoming read_frame(const ZmqFrame& frame);
  bool finish_chunk(std::uint64_t id, const ZmqFrame& frame, TimePoint now);
  void dialled_frame(std::uint64_t id, const ZmqFrame& frame, TimePoint now);
  void listened_frame(std::uint64_t id, ZmqFrame& frame, TimePoint now);
  [[nodiscard]] Peer* add_peer(const FrameHead& head, const Source& source,
                               ZmqFrame& frame, TimePoint now);
  [[nodiscard]] bool learn_route(Peer& peer, Lane lane, std::uint64_t id,
                                 ZmqFrame& frame, TimePoint now);
  void forgotten(const FrameHead& head, std::uint64_t id, const ZmqFrame& frame,
                 TimePoint now);
  bool let_in(Peer& peer, Greeting greeting, TimePoint now);
  void came_up(Peer& peer, const Greeting& greeting);
  void arrived(Peer& peer, const FrameArrived& frame, std::uint64_t id,
               const std::string& route, TimePoint now);
  void arrived_value(Peer& peer, const FrameArrived& frame, TimePoint now);

  /// Whether the peer is still there.
  bool apply(Peer& peer, std::vector<SessionCommand> commands, TimePoint now);
  void apply(Peer& peer, std::vector<AskerCommand> commands);
  void apply(Peer& peer, std::vector<HolderCommand> commands);
  void made_room(PeerId peer, std::size_t room);
  void transmit(Peer& peer, Transmit frame);
  void end(Peer& peer, const std::optional<Loss>& loss, TimePoint now);
  void finish(FetchId fetch, Fetched fetched);
  void schedule(Peer& peer);
  [[nodiscard]] SessionOptions session_options(std::string name);
  [[nodiscard]] Peer* find(PeerId peer);
  std::uint64_t watch(Source source);
  void close_all(TimePoint now);

  HubOptions options_;
  LinkHandler& handler_;
  HubShared& shared_;
  ZmqContext context_;
  std::optional<ZmqAuthenticator> authenticator_;
  std::random_device random_;
  SteadyClock clock_;
  bool is_stopping_ = false;

  std::unordered_map<std::uint64_t, Source> sources_;
  std::uint64_t next_source_ = 2;
  AcceptedConnections accepted_;
  std::set<std::string> other_keys_;  ///< addresses that were told of
  std::map<Connection, HalfChunk> half_chunks_;  ///< at most one of a peer
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  std::atomic<PeerId> next_peer_ = 1;
  std::unordered_map<std::uint64_t, PeerId> sessions_;  ///< by dialler's half
  std::size_t num_unanswered_ = 0;  ///< peers that are not answered yet
  std::unordered_map<FetchId, std::pair<PeerId, FetchTaker>> fetches_;
  std::set<std::pair<TimePoint, PeerId>> due_;
  TimePoint forgotten_since_;
  int num_forgotten_ = 0;
  ZmqPoller poller_;
};

}  // namespace troupe::net
