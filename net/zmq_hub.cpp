#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/endpoint.h"
#include "net/link.h"
#include "net/zmq_endpoint.h"
#include "net/zmq_loop.h"

namespace troupe::net {
namespace {

constexpr int kDialledEvents =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

void check_size(std::string_view what, std::size_t size, std::size_t most) {
  if (size > most) {
    throw Error(Errc::invalid_argument, kLinkPlace,
                std::string(what) + " has " + std::to_string(size) +
                    " bytes, at most " + std::to_string(most) + " are allowed");
  }
}

void check_options(const HubOptions& options) {
  check_size("the role", options.role.size(), kMostSentenceBytes);
  require(options.room >= room_for(kMostRecordBytes), Errc::invalid_argument,
          kLinkPlace, "the room is too small for one record");
  const auto least = std::chrono::milliseconds(10);
  require(options.lease >= least && options.beat_interval > Duration{} &&
              options.reconnect_grace > Duration{} &&
              options.greeting_deadline >= least,
          Errc::invalid_argument, kLinkPlace,
          "lease and deadlines are too short");
}

class ZmqHub final : public Hub {
 public:
  ZmqHub(ZmqContext context, HubOptions options, LinkHandler& handler)
      : options_(std::move(options)),
        context_(std::move(context)),
        loop_(context_, options_, handler, shared_),
        thread_([this] { loop_.run(); }) {}

  ~ZmqHub() override {
    post([](HubLoop& loop, TimePoint) { loop.stop(); });
    thread_.join();
  }

  std::string listen(const std::string& text) override {
    const Endpoint endpoint = parse_endpoint(text);
    check_keys(endpoint, options_.keys.has_value(), "listens");
    HubLoop::Listening listening{.transport = endpoint.transport};
    listening.socket = std::make_shared<ZmqSocket>(context_, ZMQ_ROUTER);
    ZmqSocket* const socket = listening.socket.get();
    socket->set_link_options(options_.lease);
    listening.has_users = prepare_listener(*socket, endpoint, options_.keys);
    if (endpoint.transport == Transport::ipc) {
      prepare_folder(endpoint);
      PathLock lock(endpoint);
      const std::lock_guard guard(shared_.mutex);
      locks_.push_back(std::move(lock));
    }
    listening.monitor = std::make_shared<ZmqSocket>(
        socket->monitor(ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL));
    socket->bind(endpoint.text);
    std::string bound = endpoint.transport == Transport::tcp
                            ? socket->last_endpoint()
                            : endpoint.text;
    post([listening = std::move(listening)](HubLoop& loop, TimePoint) {
      loop.add_listener(listening);
    });
    return bound;
  }

  PeerId dial(const std::string& text, DialOptions options) override {
    const Endpoint endpoint = parse_endpoint(text);
    check_keys(endpoint, options_.keys.has_value(), "dials");
    check_size("a greeting", options.record.size(), kMostGreetingBytes);
    require(endpoint.port != "*", Errc::invalid_argument, kLinkPlace,
            "the endpoint " + in_quotes(text) + " has no port to dial");
    HubLoop::Dialled dialled{.name = endpoint.text,
                             .record = std::move(options.record),
                             .deadline = options.deadline};
    for (auto& lane : dialled.lanes) {
      lane = std::make_shared<ZmqSocket>(context_, ZMQ_DEALER);
    }
    for (const Lane lane : {Lane::control, Lane::beats}) {
      const auto at = static_cast<std::size_t>(lane);
      dialled.monitors[at] = std::make_shared<ZmqSocket>(
          dialled.lanes[at]->monitor(kDialledEvents));
    }
    for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
      connect(*dialled.lanes[lane], endpoint, options.key,
              static_cast<Lane>(lane) == Lane::beats);
    }
    const PeerId peer = loop_.take_peer_id();
    post([peer, dialled = std::move(dialled)](HubLoop& loop, TimePoint now) {
      loop.add_dialled(peer, dialled, now);
    });
    return peer;
  }

  void accept(PeerId peer, std::string record, std::string name) override {
    check_size("a greeting", record.size(), kMostGreetingBytes);
    post_event(peer, Accept{std::move(record), std::move(name)});
  }

  void refuse(PeerId peer, std::string sentence) override {
    post_event(peer, Leave{std::move(sentence)});
  }

  void leave(PeerId peer, std::string sentence) override {
    {
      const std::lock_guard lock(shared_.mutex);
      shared_.rooms.erase(peer);  // nothing can be sent from now on
    }
    post_event(peer, Leave{std::move(sentence)});
  }

  SendResult send(PeerId peer, SharedBytes record) override {
    check_size("a record", record.size, kMostRecordBytes);
    require(record.size > 0, Errc::invalid_argument, kLinkPlace,
            "an empty record cannot be sent");
    const std::size_t room = room_for(record.size);
    const std::lock_guard lock(shared_.mutex);
    const auto found = shared_.rooms.find(peer);
    if (found == shared_.rooms.end()) {
      return SendResult::no_peer;
    }
    if (found->second.free < room) {
      found->second.is_wanted = true;
      return SendResult::no_room;
    }
    found->second.free -= room;
    push([peer, record = std::move(record)](HubLoop& loop, TimePoint now) {
      loop.session_event(peer, SendRecord{record}, now);
    });
    return SendResult::queued;
  }

  void fetch(PeerId peer, std::string key, FetchOptions options,
             FetchTaker taker) override {
    check_size("a key", key.size(), kMostKeyBytes);
    const TimePoint deadline = SteadyClock{}.now() + options.deadline;
    // Numbers rise in the order of the jobs.
    const std::lock_guard lock(shared_.mutex);
    const FetchId fetch = next_fetch_++;
    push([=, key = std::move(key), taker = std::move(taker)](HubLoop& loop,
                                                             TimePoint now) {
      loop.fetch(peer,
                 {fetch, key, options.most_bytes, deadline, options.silence},
                 taker, now);
    });
  }

  void give(WantId want, Value value) override {
    require(value.size() <= kMostValueParts, Errc::invalid_argument, kLinkPlace,
            "a value has too many parts");
    post([want, value = std::move(value)](HubLoop& loop, TimePoint now) {
      loop.answer(want, GiveValue{want, value}, now);
    });
  }

  void give_nothing(WantId want) override {
    post([want](HubLoop& loop, TimePoint now) {
      loop.answer(want, GiveNothing{want}, now);
    });
  }

 private:
  void connect(ZmqSocket& socket, const Endpoint& endpoint,
               const std::optional<PublicKey>& key, bool is_beats) const {
    socket.set_link_options(options_.lease);
    if (is_beats) {
      // A beat that cannot go out now is of no use later.
      socket.set(ZMQ_IMMEDIATE, 1);
      socket.set(ZMQ_SNDHWM, 4);
    }
    net::dial(socket, endpoint, options_.keys, key);
  }

  void post(HubShared::Job job) {
    const std::lock_guard lock(shared_.mutex);
    push(std::move(job));
  }

  void post_event(PeerId peer, SessionEvent event) {
    post([peer, event = std::move(event)](HubLoop& loop, TimePoint now) {
      loop.session_event(peer, event, now);
    });
  }

  /// Under the mutex.
  void push(HubShared::Job job) {
    shared_.jobs.push_back(std::move(job));
    if (shared_.jobs.size() == 1) {
      loop_.wake();
    }
  }

  HubOptions options_;
  HubShared shared_;
  FetchId next_fetch_ = 1;  ///< under the mutex
  ZmqContext context_;
  std::vector<PathLock> locks_;  ///< under the mutex
  HubLoop loop_;
  std::thread thread_;
};

class ZmqSwitchboard final : public Switchboard {
 public:
  std::unique_ptr<Hub> make_hub(HubOptions options,
                                LinkHandler& handler) override {
    check_options(options);
    return std::make_unique<ZmqHub>(context_, std::move(options), handler);
  }

 private:
  ZmqContext context_ = make_zmq_context();
};

}  // namespace

std::unique_ptr<Switchboard> make_switchboard() {
  return std::make_unique<ZmqSwitchboard>();
}

std::unique_ptr<Hub> make_hub(HubOptions options, LinkHandler& handler) {
  return ZmqSwitchboard{}.make_hub(std::move(options), handler);
}

}  // namespace troupe::net
