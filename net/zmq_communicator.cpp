#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/accepted_connections.h"
#include "net/socket_communicator.h"
#include "net/zmq_authenticator.h"
#include "net/zmq_endpoint.h"
#include "net/zmq_poller.h"
#include "net/zmq_socket.h"

// A rank receives through one socket, and sends to each other rank through a
// socket of its own. Frames are those of links (link_frame.h); their
// session is (epoch, number of the sending rank), and they are
//
//   record  part of a message [sequence number, tag, bytes of the message,
//           offset]
//   have    [sequence number of the last part that was taken]
//   bye     the sender has ended: a sentence. It is answered by a `have` with
//           the flag kKnowsEnd

namespace troupe::net {
namespace {

constexpr std::size_t kPartBytes = std::size_t{256} << 10U;
/// Message parts that a receiver may leave untaken before the sender stops.
constexpr std::uint64_t kMostUntaken = 16;
/// A connection that ends may leave frames that arrive a little later.
constexpr Duration kGoneAfter = std::chrono::milliseconds(100);
/// Of `have`: the sender knows that the receiver has ended.
constexpr std::uint8_t kKnowsEnd = 1;
/// How long a rank that ends waits until all others know.
constexpr Duration kMostParting = std::chrono::milliseconds(500);
/// And then, for its last answers.
constexpr int kLingerAtEndMs = 50;
/// A connection whose bytes arrive nowhere for so long is made again.
constexpr Duration kRankLease = std::chrono::seconds(5);
constexpr int kFramesAtOnce = 64;

// What the poller watches.
constexpr std::uint64_t kFromRanks = 1;
constexpr std::uint64_t kRankConnections = 2;
constexpr std::uint64_t kRankKeys = 3;

/// A frame for a rank. The thread of the sockets copies the bytes.
struct RankFrame {
  int to = 0;
  FrameHead head;
  SharedBytes payload;
};

/// A part that has arrived; it keeps the message of ZeroMQ.
struct ArrivedPart {
  FrameHead head;
  std::span<const std::byte> bytes;
  std::shared_ptr<ZmqFrame> frame;
};

/// The caller's memory: the caller waits until the socket has copied it.
[[nodiscard]] SharedBytes borrowed(std::span<const std::byte> bytes) {
  return {{std::shared_ptr<std::byte>(), const_cast<std::byte*>(bytes.data())},
          bytes.size()};
}

/// What a rank listens with. Members end in the order from the last one on.
struct RankSockets {
  RankSockets() = default;
  RankSockets(RankSockets&&) noexcept = default;
  RankSockets& operator=(RankSockets&&) = delete;
  ~RankSockets() {
    if (socket && monitor) {
      socket->stop_monitor();
    }
  }

  std::optional<LinkKeys> keys;
  ZmqContext context;
  std::optional<PathLock> lock;
  std::unique_ptr<ZmqSocket> monitor;
  std::unique_ptr<ZmqSocket> socket;
};

class ZmqCommunicator final : public Communicator {
 public:
  ZmqCommunicator(RankSockets sockets, const SocketOptions& options)
      : rank_(options.rank),
        epoch_(options.epoch),
        listening_(std::move(sockets)),
        accepted_(kMostStrangers),
        peers_(options.addresses.size()) {
    poller_.add(kFromRanks, listening_.socket.get());
    poller_.add(kRankConnections, listening_.monitor.get());
    if (listening_.keys) {
      authenticator_.emplace(listening_.context);
      for (const AllowedKey& key : listening_.keys->allowed) {
        authenticator_->allow(key);
      }
      poller_.add(kRankKeys, &authenticator_->socket());
    }
    for (int rank = 0; rank < world_size(); ++rank) {
      if (rank != rank_) {
        const auto at = static_cast<std::size_t>(rank);
        peers_[at].socket = dial_rank(options.addresses[at]);
        // Says which connection is whose.
        post(rank, {.kind = FrameKind::have});
      }
    }
    thread_ = std::thread([this] { serve(); });
  }

  ~ZmqCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      end({Errc::unreachable, kCommunicatorPlace, "it was closed"});
      is_stopping_ = true;
    }
    poller_.wake();
    thread_.join();
    poller_.remove(kFromRanks);
    poller_.remove(kRankConnections);
    poller_.remove(kRankKeys);
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int world_size() const noexcept override {
    return static_cast<int>(peers_.size());
  }

  void abort(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    end(aborted(why));
  }

  void check() override {
    const std::lock_guard lock(mutex_);
    check_locked();
  }

 protected:
  void exchange_with_others(const Call& call, std::span<const Send> sends,
                            std::span<const Receive> receives) override {
    std::unique_lock lock(mutex_);
    check_locked();
    Progress progress;
    for (const Send& send : sends) {
      progress.out.push_back({send});
    }
    for (const Receive& receive : receives) {
      progress.in.push_back({receive});
    }
    try {
      while (true) {
        send_parts(call, progress);
        take_parts(call, progress, lock);
        if (progress.in.empty() && progress.out.empty() && is_all_sent()) {
          return;
        }
        if (!progress.has_moved) {
          check_waiting(call, progress);
          changed_.wait_until(lock, call.deadline);
        }
      }
    } catch (const Error& error) {
      // What is not sent yet is of no use, and its bytes are the caller's.
      std::erase_if(frames_, [](const RankFrame& frame) {
        return frame.head.kind == FrameKind::record;
      });
      end(error);
      changed_.wait(lock, [&] { return !is_sending_; });
      throw;
    }
  }

 private:
  static constexpr std::size_t kMostStrangers = 1024;

  struct Peer {
    std::unique_ptr<ZmqSocket> socket;  ///< of the thread; null: this rank
    int descriptor = -1;                ///< of the thread: it sends by this
    std::optional<TimePoint> gone_at;   ///< of the thread: not heard since
    std::uint64_t num_sent = 0;         ///< parts
    std::uint64_t num_taken = 0;        ///< of these, by the peer
    std::uint64_t num_arrived = 0;      ///< parts of the peer
    std::deque<ArrivedPart> arrived;    ///< not taken yet
    std::optional<std::string> ended;   ///< why
    bool knows_end = false;             ///< that this rank has ended
  };
  struct Outgoing {
    Send send;
    std::size_t num_posted = 0;  ///< bytes
  };
  struct Incoming {
    Receive receive;
    std::size_t num_taken = 0;  ///< bytes
  };
  struct Progress {
    std::vector<Outgoing> out;
    std::vector<Incoming> in;
    bool has_moved = false;  ///< in this turn
  };

  // ---- the caller's thread, and any for `end`: under the lock

  [[nodiscard]] Peer& peer(int rank) {
    return peers_[static_cast<std::size_t>(rank)];
  }

  void check_locked() const {
    if (ended_) {
      throw *ended_;
    }
  }

  void end(const Error& error) {
    if (ended_) {
      return;
    }
    ended_ = error;
    for (int rank = 0; rank < world_size(); ++rank) {
      if (rank != rank_) {
        post(rank, {.kind = FrameKind::bye}, sentence_payload(error.message()));
      }
    }
    changed_.notify_all();
  }

  void post(int to, FrameHead head, SharedBytes payload = {}) {
    head.session = {epoch_, static_cast<std::uint64_t>(rank_) + 1};
    frames_.push_back({to, head, std::move(payload)});
    if (frames_.size() == 1) {
      poller_.wake();
    }
  }

  [[nodiscard]] bool is_all_sent() const {
    return frames_.empty() && !is_sending_;
  }

  /// As many as the receivers have room for.
  void send_parts(const Call& call, Progress& progress) {
    progress.has_moved = false;
    std::vector<int> full;  ///< what follows to them has to wait
    for (Outgoing& out : progress.out) {
      Peer& to = peer(out.send.to);
      const auto bytes = out.send.bytes;
      while (out.num_posted < bytes.size() &&
             to.num_sent - to.num_taken < kMostUntaken &&
             std::ranges::find(full, out.send.to) == full.end()) {
        const auto part =
            bytes.subspan(out.num_posted,
                          std::min(kPartBytes, bytes.size() - out.num_posted));
        post(out.send.to,
             {.kind = FrameKind::record,
              .a = ++to.num_sent,
              .b = call.tag,
              .c = bytes.size(),
              .d = out.num_posted},
             borrowed(part));
        out.num_posted += part.size();
        progress.has_moved = true;
      }
      if (out.num_posted < bytes.size()) {
        full.push_back(out.send.to);
      }
    }
    std::erase_if(progress.out, [](const Outgoing& out) {
      return out.num_posted == out.send.bytes.size();
    });
  }

  /// Takes what has arrived. The lock is open while bytes are copied.
  void take_parts(const Call& call, Progress& progress,
                  std::unique_lock<std::mutex>& lock) {
    // From the first one each time: while the lock was open, a part may have
    // come for a message that was passed over.
    for (std::size_t i = 0; i < progress.in.size(); ++i) {
      Incoming& in = progress.in[i];
      Peer& from = peer(in.receive.from);
      if (from.arrived.empty()) {
        continue;
      }
      const ArrivedPart part = std::move(from.arrived.front());
      from.arrived.pop_front();
      check_part(call, in, part);
      lock.unlock();
      std::memcpy(in.receive.bytes.data() + in.num_taken, part.bytes.data(),
                  part.bytes.size());
      lock.lock();
      in.num_taken += part.bytes.size();
      progress.has_moved = true;
      post(in.receive.from, {.kind = FrameKind::have, .a = part.head.a});
      if (in.num_taken == in.receive.bytes.size()) {
        progress.in.erase(progress.in.begin() + static_cast<std::ptrdiff_t>(i));
      }
      i = static_cast<std::size_t>(-1);
    }
  }

  static void check_part(const Call& call, const Incoming& in,
                         const ArrivedPart& part) {
    const MessageHead got{part.head.b, part.head.c};
    const MessageHead expected{call.tag, in.receive.bytes.size()};
    if (got != expected) {
      throw disagreement(in.receive.from, got, expected);
    }
    // A part of another message of the same name and size.
    if (part.head.d != in.num_taken || part.bytes.empty() ||
        part.bytes.size() > in.receive.bytes.size() - in.num_taken) {
      throw Error(Errc::internal, kCommunicatorPlace,
                  "rank " + std::to_string(in.receive.from) +
                      " sent a part that does not belong here");
    }
  }

  /// Whether it makes sense to wait for what is missing.
  void check_waiting(const Call& call, const Progress& progress) {
    check_locked();
    std::vector<int> waited;
    for (const Incoming& in : progress.in) {
      waited.push_back(in.receive.from);
    }
    for (const Outgoing& out : progress.out) {
      waited.push_back(out.send.to);
    }
    for (const int rank : waited) {
      if (const auto& ended = peer(rank).ended) {
        throw peer_ended(rank, *ended);
      }
    }
    // Frames that are not sent yet are only on their way to the thread.
    if (!waited.empty() && std::chrono::steady_clock::now() >= call.deadline) {
      throw peers_late(std::move(waited), call.tag);
    }
  }

  // ---- the thread of the sockets

  [[nodiscard]] std::unique_ptr<ZmqSocket> dial_rank(
      const RankAddress& address) {
    const Endpoint endpoint = parse_endpoint(address.endpoint);
    check_keys(endpoint, listening_.keys.has_value(), "dials");
    require(endpoint.transport != Transport::inproc && endpoint.port != "*",
            Errc::invalid_argument, kCommunicatorPlace,
            "no rank can be dialled at " + in_quotes(address.endpoint));
    auto socket = std::make_unique<ZmqSocket>(listening_.context, ZMQ_PUSH);
    socket->set_link_options(kRankLease);
    socket->set(ZMQ_LINGER, kLingerAtEndMs);
    dial(*socket, endpoint, listening_.keys, address.key);
    return socket;
  }

  void serve() {
    std::optional<TimePoint> stop_at;
    while (true) {
      const TimePoint now = std::chrono::steady_clock::now();
      if (send_frames() && !stop_at) {
        stop_at = now + kMostParting;
      }
      if (stop_at && (now >= *stop_at || all_know_end())) {
        break;
      }
      for (const std::uint64_t id : poller_.wait(wake_at(stop_at))) {
        if (id == kRankKeys) {
          authenticator_->answer();
        } else {
          drain();
        }
        poller_.touch(id);
      }
      lose_silent_peers();
    }
    send_frames();
  }

  [[nodiscard]] bool all_know_end() {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(peers_, [](const Peer& peer) {
      return peer.socket == nullptr || peer.ended || peer.knows_end;
    });
  }

  /// Returns whether the thread is to end.
  bool send_frames() {
    std::unique_lock lock(mutex_);
    std::deque<RankFrame> frames = std::exchange(frames_, {});
    const bool is_stopping = is_stopping_;
    is_sending_ = true;
    lock.unlock();
    for (const RankFrame& frame : frames) {
      // A queue that is full is that of a rank that does not read: the deadline
      // or its end will show.
      static_cast<void>(
          peer(frame.to).socket->send({}, frame.head, frame.payload));
    }
    lock.lock();
    is_sending_ = false;
    changed_.notify_all();
    return is_stopping;
  }

  [[nodiscard]] std::optional<TimePoint> wake_at(
      std::optional<TimePoint> at) const {
    for (const Peer& peer : peers_) {
      if (peer.gone_at && (!at || *peer.gone_at + kGoneAfter < *at)) {
        at = *peer.gone_at + kGoneAfter;
      }
    }
    return at;
  }

  /// Returns whether there may be more.
  bool drain() {
    drain_connections();
    for (int i = 0; i < kFramesAtOnce; ++i) {
      auto frame = std::make_shared<ZmqFrame>();
      if (!listening_.socket->receive(*frame)) {
        return false;
      }
      arrived(frame);
    }
    poller_.touch(kFromRanks);
    return true;
  }

  void drain_connections() {
    const TimePoint now = std::chrono::steady_clock::now();
    while (const auto event = listening_.monitor->receive_event()) {
      if (event->kind == ZMQ_EVENT_ACCEPTED) {
        accepted_.accept(event->value, now);
      } else if (const auto owner = accepted_.close(event->value);
                 owner && owner->peer != 0) {
        Peer& closed = peer(static_cast<int>(owner->peer) - 1);
        if (closed.descriptor == event->value) {
          closed.gone_at = now;
        }
      }
    }
    accepted_.shed(now);
  }

  void arrived(const std::shared_ptr<ZmqFrame>& frame) {
    const auto head_bytes =
        frame->bytes.first(std::min(frame->bytes.size(), kHeadBytes));
    const auto payload = frame->bytes.subspan(head_bytes.size());
    const ReadHead read = read_head(head_bytes, payload);
    const SessionId& session = read.head.session;
    if (read.state != FrameState::good || session.dialler != epoch_ ||
        session.listener == 0 || session.listener > peers_.size() ||
        session.listener == static_cast<std::uint64_t>(rank_) + 1) {
      return;
    }
    const int rank = static_cast<int>(session.listener) - 1;
    Peer& from = peer(rank);
    if (const int descriptor = frame->descriptor();
        descriptor != from.descriptor) {
      drain_connections();  // the connection may be new
      from.descriptor = descriptor;
      from.gone_at.reset();
      if (!accepted_.take(descriptor, {session.listener, Lane::values})) {
        from.gone_at = std::chrono::steady_clock::now();
      }
    }
    const std::lock_guard lock(mutex_);
    switch (read.head.kind) {
      case FrameKind::record:
        if (read.head.a != from.num_arrived + 1) {
          lose(from, "frames of it were lost");
        } else if (from.arrived.size() >= kMostUntaken) {
          lose(from, "it sends more than there is room for");
        } else {
          ++from.num_arrived;
          from.arrived.push_back({read.head, payload, frame});
        }
        break;
      case FrameKind::have:
        from.num_taken = std::clamp(read.head.a, from.num_taken, from.num_sent);
        from.knows_end |= read.head.flags == kKnowsEnd;
        break;
      case FrameKind::bye:
        lose(from, sentence_of(payload));
        post(rank, {.kind = FrameKind::have, .flags = kKnowsEnd});
        break;
      default:
        return;
    }
    changed_.notify_all();
  }

  static void lose(Peer& peer, std::string why) {
    if (!peer.ended) {
      peer.ended = std::move(why);
    }
  }

  void lose_silent_peers() {
    const TimePoint now = std::chrono::steady_clock::now();
    for (Peer& peer : peers_) {
      if (peer.gone_at && now >= *peer.gone_at + kGoneAfter) {
        peer.gone_at.reset();
        // The peer's last frames arrived before its connection ended.
        while (drain()) {
        }
        const std::lock_guard lock(mutex_);
        lose(peer, "its connection was closed");
        changed_.notify_all();
      }
    }
  }

  const int rank_;
  const std::uint64_t epoch_;

  RankSockets listening_;
  std::optional<ZmqAuthenticator> authenticator_;
  AcceptedConnections accepted_;
  ZmqPoller poller_;

  std::mutex mutex_;  ///< of what follows
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::deque<RankFrame> frames_;  ///< for the thread
  bool is_sending_ = false;       ///< the thread has taken some
  bool is_stopping_ = false;
  std::optional<Error> ended_;

  std::thread thread_;
};

class ZmqRankListener final : public RankListener {
 public:
  ZmqRankListener(const std::string& text, std::optional<LinkKeys> keys) {
    const Endpoint endpoint = parse_endpoint(text);
    check_keys(endpoint, keys.has_value(), "listens");
    require(endpoint.transport != Transport::inproc, Errc::invalid_argument,
            kCommunicatorPlace,
            "ranks do not listen at " + in_quotes(text) +
                ": those of one process need no socket");
    it_.context = make_zmq_context();
    it_.keys = std::move(keys);
    it_.socket = std::make_unique<ZmqSocket>(it_.context, ZMQ_PULL);
    it_.socket->set_link_options(kRankLease);
    prepare_listener(*it_.socket, endpoint, it_.keys);
    if (endpoint.transport == Transport::ipc) {
      prepare_folder(endpoint);
      it_.lock.emplace(endpoint);
    }
    it_.monitor = std::make_unique<ZmqSocket>(
        it_.socket->monitor(ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED));
    it_.socket->bind(endpoint.text);
    endpoint_ = endpoint.transport == Transport::tcp
                    ? it_.socket->last_endpoint()
                    : endpoint.text;
  }

  [[nodiscard]] const std::string& endpoint() const override {
    return endpoint_;
  }

  std::unique_ptr<Communicator> join(const SocketOptions& options) override {
    require(options.rank >= 0 &&
                options.rank < static_cast<int>(options.addresses.size()) &&
                it_.socket != nullptr,
            Errc::invalid_argument, kCommunicatorPlace,
            "a rank joins once, and has an address: got rank " +
                std::to_string(options.rank) + " of " +
                std::to_string(options.addresses.size()));
    return std::make_unique<ZmqCommunicator>(std::move(it_), options);
  }

 private:
  RankSockets it_;
  std::string endpoint_;
};

}  // namespace

std::unique_ptr<RankListener> listen_as_rank(const std::string& endpoint,
                                             std::optional<LinkKeys> keys) {
  return std::make_unique<ZmqRankListener>(endpoint, std::move(keys));
}

}  // namespace troupe::net
