#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/clock.h"
#include "net/keys.h"
#include "net/shared_bytes.h"

// Links between processes. A process has one Hub, and the Hub has one link to
// each peer. A link has three lanes; every lane is a separate connection:
//
//   control  records, each delivered once and in order
//   values   large immutable bytes, asked for by a key
//   beats    signs of life: the round trip, the clock
//
// A link moves bytes. What a record or a key means is not known here.

namespace troupe::net {

/// The version of the protocol and of the records in it. Peers of different
/// versions refuse each other.
inline constexpr std::uint16_t kLinkVersion = 2;

/// The most bytes of the record in a greeting.
inline constexpr std::size_t kMostGreetingBytes = std::size_t{64} << 10U;
/// The most bytes of one record on the control lane.
inline constexpr std::size_t kMostRecordBytes = std::size_t{8} << 20U;
/// The most bytes of a value's key.
inline constexpr std::size_t kMostKeyBytes = 1024;
/// The most parts of a value.
inline constexpr std::size_t kMostValueParts = 4096;
/// The most bytes of a sentence to a peer, and of a role.
inline constexpr std::size_t kMostSentenceBytes = 1024;

/// Names a peer within its hub, from 1 on. Never used twice: a peer that comes
/// back after it was lost has another number.
using PeerId = std::uint64_t;
/// Names a question for a value that a peer asked, from 1 on.
using WantId = std::uint64_t;

/// The public key of a process outside the company, and the role that its
/// greeting may have.
struct AllowedKey {
  PublicKey public_key{};
  std::string role;
};

/// The keys of a process. With them every tcp and ipc connection is encrypted
/// and authenticated both ways.
struct LinkKeys {
  KeyPair own;
  /// The keys that may dial this hub.
  std::vector<AllowedKey> allowed;
};

/// How a peer introduces itself.
struct Greeting {
  std::string role;
  std::string record;  ///< opaque, at most kMostGreetingBytes
  /// Of a peer that asks to join: the host that it dialled from, as tcp knows
  /// it ("10.0.0.7"); otherwise empty. It listens there too, if it says so.
  std::string address;
};

/// Why a peer is no more.
enum class LossCause : std::uint8_t {
  unreachable,  ///< it did not answer the greeting before the deadline
  refused,      ///< it refused the greeting; `what` holds its sentence
  version,      ///< it speaks another version; `what` names both
  silent,       ///< nothing was heard on its beats lane for its lease, or on
                ///< its control lane for five
  closed,       ///< its connections were closed, and it did not come back
  left,         ///< it said good-bye; `what` holds its sentence
  forgotten,    ///< it does not know this session any more
  breach,       ///< it broke the protocol
};

struct Loss {
  LossCause cause{};
  /// One sentence with the name of the peer and the cause.
  std::string what;
  /// Of a peer that was dialled and never was up: what was seen of it, without
  /// its name and the time ("it refused: …").
  std::string seen = {};
};

/// What `Hub::send` did.
enum class SendResult : std::uint8_t {
  queued,
  no_room,  ///< `LinkHandler::on_room` will say when there is room again
  no_peer,  ///< it is lost, or not up yet
};

/// The measurements of an answered beat.
struct RoundTrip {
  Duration taken{};
  /// The steady clock of the peer's host minus ours, wrong by half of `taken`
  /// at most.
  Duration clock_ahead{};
};

/// How a question for a value ended.
enum class FetchStatus : std::uint8_t {
  found,
  gone,       ///< the holder has not got it and will not have it
  too_large,  ///< larger than `FetchOptions::most_bytes`
  corrupt,    ///< its hash is not that of the bytes that arrived
  late,       ///< not here at the deadline, or nothing came of it for too long
  lost,       ///< the holder is lost
};

/// A value on a link: parts (for example a description and tensors) that arrive
/// unchanged. Each part of a fetched value begins at a multiple of 64 bytes.
using Value = std::vector<SharedBytes>;

struct Fetched {
  FetchStatus status = FetchStatus::gone;
  Value value;       ///< if found
  std::string what;  ///< otherwise one sentence that names the holder
};

/// Called once, on the hub's thread. Must not block or throw.
using FetchTaker = std::function<void(Fetched)>;

struct FetchOptions {
  /// What the asker has reserved: nothing more is allocated.
  std::size_t most_bytes = std::size_t{64} << 20U;
  /// From the question to the whole value. Who asks before the value is made
  /// waits for that too.
  Duration deadline = std::chrono::seconds(60);
  /// The longest time in which nothing of it comes: before it is found, which
  /// may be before it is made, and between any two pieces. Then it is late,
  /// too. Zero: until the deadline. A value that waits for others of the same
  /// holder to come first is not waited for.
  Duration silence{};
};

struct DialOptions {
  std::string record;  ///< of our greeting
  /// The listener's public key. Needed if the hub has keys and the endpoint is
  /// not inproc.
  std::optional<PublicKey> key;
  /// Until the listener's answer.
  Duration deadline = std::chrono::seconds(5);
};

/// The events of a hub. All calls come from the hub's thread, one at a time.
/// They must not block or throw; they may call the hub's methods, but not
/// destroy it.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;

  /// A peer dialled a listening endpoint, sent its greeting and asks to join.
  /// Answer with `Hub::accept` or `Hub::refuse`, now or later, from any thread;
  /// the peer is refused at `HubOptions::greeting_deadline`. With keys, the
  /// greeting's role is one that the peer's key permits.
  virtual void on_greeting(PeerId peer, const Greeting& greeting) = 0;
  /// A peer that was dialled has accepted, or one that was accepted can be
  /// written to. `greeting` is the peer's.
  virtual void on_up(PeerId peer, const Greeting& greeting) = 0;
  /// The next record of the peer. The bytes are valid during the call.
  virtual void on_record(PeerId peer, std::span<const std::byte> record) = 0;
  /// `Hub::send` had no room; now half of it is free.
  virtual void on_room(PeerId peer) = 0;
  /// A beat. `round_trip`: set if the beat answers one of ours.
  virtual void on_beat(PeerId /*peer*/,
                       const std::optional<RoundTrip>& /*round_trip*/) {}
  /// A peer asks for a value. Answer with `Hub::give` or `Hub::give_nothing`,
  /// now or as soon as it is made, from any thread. The same question may come
  /// again under another number.
  virtual void on_wanted(PeerId peer, WantId want, std::string_view key) = 0;
  /// Somebody dialled a listening endpoint with another key, with keys where
  /// this hub has none, or the other way round, and got no further. `address`:
  /// as in Greeting; also empty where it could not be read. Once for an
  /// address, and for so many addresses only.
  virtual void on_other_key(const std::string& /*address*/) {}
  /// The peer is no more, and its number ends: no call names it afterwards. Not
  /// called for peers that this process refused or left.
  virtual void on_lost(PeerId peer, const Loss& loss) = 0;
};

struct HubOptions {
  std::string role;  ///< ours, in every greeting
  std::optional<LinkKeys> keys;
  /// A peer is lost if nothing is heard on its beats lane for so long. The peer
  /// learns the lease from the greeting, and beats often enough for it.
  Duration lease = std::chrono::seconds(2);
  Duration beat_interval = std::chrono::milliseconds(100);
  /// A peer is lost if all its connections are closed, as a crash closes them,
  /// and no connection is made again within this time plus six of its round
  /// trips: a new connection with keys takes six.
  Duration reconnect_grace = std::chrono::milliseconds(30);
  /// For `on_greeting` to be answered.
  Duration greeting_deadline = std::chrono::seconds(5);
  /// Bytes of records that wait for the peer's acknowledgement, per peer. At
  /// least kMostRecordBytes.
  std::size_t room = std::size_t{16} << 20U;
  /// Connections by which no peer has spoken yet, at all listeners of this hub.
  /// Never more than half of the descriptors that the process may have.
  std::size_t most_unidentified = 2048;
};

/// The links of a process: one thread, all sockets. Thread: any, but for the
/// destructor. Each peer takes three descriptors where it is listened to, and
/// ten where it was dialled. So the process gets as many descriptors as its
/// hard limit allows.
///
/// Endpoints: "tcp://10.0.0.1:7010" (port 0 or *: any free one),
/// "tcp://[::1]:7010", "ipc:///run/user/7/troupe/a" (its folder is ours alone,
/// mode 0700; it is made if it is missing), "inproc://name" (hubs made from one
/// `Switchboard`). Without keys a tcp endpoint must be of the loopback
/// interface.
///
/// A link outlives its connections: the side that dialled reconnects, both
/// sides report the records that they have received, and the rest is sent
/// again. A session that was lost is never resumed.
class Hub {
 public:
  /// Says good-bye to every peer; open questions end as `lost`. No call of the
  /// handler happens afterwards. Takes at most a quarter of a second.
  virtual ~Hub() = default;

  /// Returns the endpoint with its port. Errors: Errc::invalid_argument for an
  /// endpoint that is none or not allowed, Errc::io if it is taken.
  virtual std::string listen(const std::string& endpoint) = 0;
  /// Returns at once; `on_up` or `on_lost` follows. Errors:
  /// Errc::invalid_argument for an endpoint that is none or not allowed.
  virtual PeerId dial(const std::string& endpoint, DialOptions options) = 0;

  /// Lets in a peer that asked to join; `record` is that of our greeting.
  /// Sentences call the peer `name` from now on; empty: its number here and its
  /// address. Nothing happens if the peer has gone meanwhile. Errors:
  /// Errc::invalid_argument above kMostGreetingBytes.
  virtual void accept(PeerId peer, std::string record,
                      std::string name = {}) = 0;
  /// Sends the sentence to a peer that asked to join, and forgets the peer.
  virtual void refuse(PeerId peer, std::string sentence) = 0;
  /// Says good-bye and forgets the peer. Records that it has not acknowledged
  /// may be lost.
  virtual void leave(PeerId peer, std::string sentence) = 0;

  /// Sends a record on the control lane. Errors: Errc::invalid_argument for an
  /// empty one and above kMostRecordBytes.
  virtual SendResult send(PeerId peer, SharedBytes record) = 0;

  /// Asks a peer for a value. `taker` is called once. Errors:
  /// Errc::invalid_argument for a key above kMostKeyBytes.
  virtual void fetch(PeerId peer, std::string key, FetchOptions options,
                     FetchTaker taker) = 0;
  /// Answers a question. The bytes are sent from where they are, and held until
  /// the peer has them. Errors: Errc::invalid_argument above kMostValueParts.
  virtual void give(WantId want, Value value) = 0;
  /// The value is not here and will not be.
  virtual void give_nothing(WantId want) = 0;
};

/// Makes hubs that reach each other by "inproc://name". Thread: any.
class Switchboard {
 public:
  virtual ~Switchboard() = default;
  /// `handler` outlives the hub. Errors: Errc::invalid_argument for options
  /// that make no sense; Errc::unsupported for a second hub with keys.
  [[nodiscard]] virtual std::unique_ptr<Hub> make_hub(HubOptions options,
                                                      LinkHandler& handler) = 0;
};

/// The switchboard over ZeroMQ. Must outlive its hubs.
[[nodiscard]] std::unique_ptr<Switchboard> make_switchboard();

/// The only hub of a process. Errors: as `Switchboard::make_hub`.
[[nodiscard]] std::unique_ptr<Hub> make_hub(HubOptions options,
                                            LinkHandler& handler);

}  // namespace troupe::net
