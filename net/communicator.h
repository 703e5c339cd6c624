#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/clock.h"
#include "kernels/core/error.h"

namespace troupe::net {

/// The place that errors of communicators name.
inline constexpr std::string_view kCommunicatorPlace = "communicator";

/// Port: how the ranks of one computation exchange bytes. Every rank calls the
/// same operations in the same order. Kinds: inproc_communicator.h (threads of
/// a process; the reference), socket_communicator.h (processes), nccl.h (GPUs).
///
/// Spans are addresses in the memory of the kind: of the host, or for NCCL of
/// the rank's GPU (`Tensor::bytes` gives both). They stay valid and untouched
/// until the operation returns; what is written overlaps nothing else, unless
/// an operation says so. An operation returns when all bytes for this rank are
/// here and those that it sent may be overwritten. Whether another rank has
/// them by then is not said, so a send and a receive that wait for each other
/// belong in one `exchange`.
///
/// Messages between two ranks arrive in the order of their sending. Each bears
/// a tag and a size; another tag or size than the receiver
/// expects means that the ranks disagree about what they compute.
///
/// An operation that fails ends the communicator: every later operation fails
/// with the same error, and ranks that wait for this rank fail, too. Bytes that
/// were to be received are then undefined. Errors (all operations):
///   Errc::unreachable       a peer was not there by the deadline, or its
///                           communicator has ended; names the peer
///   Errc::interrupted       `abort` was called here
///   Errc::internal          another tag or size; names the peer
///   Errc::invalid_argument  arguments that make no sense; this alone does not
///                           end the communicator
/// Thread: one at a time; `abort` any.
class Communicator {
 public:
  using Tag = std::uint64_t;

  /// What every operation is given.
  struct Call {
    /// The same at all ranks of the operation.
    Tag tag = 0;
    /// The operation fails if it is not done by then.
    TimePoint deadline;
    /// Of a collective operation: the ranks that take part, in the order in
    /// which their parts stand and are summed. The same at all of them, without
    /// repetitions, and with this rank. Empty: all, in the order of ranks.
    std::span<const int> group = {};
  };
  struct Send {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from = 0;
    std::span<std::byte> bytes;
  };

  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Ranks that still wait for this one fail.
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const noexcept = 0;
  [[nodiscard]] virtual int world_size() const noexcept = 0;
  /// Ends the communicator, and the operation that another thread may be in.
  /// `why` is one sentence for the errors here and at the other ranks. Does not
  /// wait. Thread: any.
  virtual void abort(const std::string& why) = 0;
  /// Whether the communicator still works, as far as this rank knows. Errors:
  /// what an operation would fail with. Does not wait.
  virtual void check() = 0;

  /// Issues all sends and receives together. Messages without bytes are not
  /// sent. Messages of a rank to itself are copied; a send to this rank and its
  /// receive stand in the same call.
  void exchange(const Call& call, std::span<const Send> sends,
                std::span<const Receive> receives);

  void send(const Call& call, int to, std::span<const std::byte> bytes);
  void receive(const Call& call, int from, std::span<std::byte> bytes);
  /// Gives the bytes of rank `root` to all of the group.
  void broadcast(const Call& call, int root, std::span<std::byte> bytes);
  /// Gives the bytes of every member to all members. parts: memory for the
  /// bytes of each member; sizes may differ. This rank's part is as large as
  /// `mine`, and may be `mine`.
  void all_gather(const Call& call, std::span<const std::byte> mine,
                  std::span<const std::span<std::byte>> parts);
  /// Gives every member other bytes. to: bytes for each member; from: memory
  /// for the bytes of each member. What member a sends to b has the size that b
  /// expects from a.
  void all_to_all(const Call& call,
                  std::span<const std::span<const std::byte>> to,
                  std::span<const std::span<std::byte>> from);
  /// Sums the values of all members, element by element, in f32 and in the
  /// order of the group: the same bytes at every rank and in every run. With
  /// NCCL the sums are made on the host, so this is for few values there.
  void all_reduce(const Call& call, std::span<float> values);
  /// Sends to the next member of the group and receives from the one before.
  void ring_exchange(const Call& call, std::span<const std::byte> to_next,
                     std::span<std::byte> from_previous);
  /// Returns when every member has come here.
  void barrier(const Call& call);

 protected:
  /// Issues all messages, which are to and from other ranks and not empty.
  /// There may be none. Errors: as above.
  virtual void exchange_with_others(const Call& call,
                                    std::span<const Send> sends,
                                    std::span<const Receive> receives) = 0;
  /// Copies within this rank's memory, before the next `exchange_with_others`
  /// returns.
  virtual void copy_own(std::span<const std::byte> from,
                        std::span<std::byte> to);
  /// Memory for parts of an operation, until the next call.
  [[nodiscard]] virtual std::span<std::byte> scratch(std::size_t bytes);
  /// sum[i] = terms[i] + terms[n + i] + terms[2 n + i] + …, in this order,
  /// where sum has n values. n > 0.
  virtual void add_terms(std::span<const float> terms, std::span<float> sum);

 private:
  std::vector<float> scratch_;
};

// For the kinds: the errors above.

/// What two ranks have to agree on.
struct MessageHead {
  Communicator::Tag tag = 0;
  std::size_t bytes = 0;

  friend bool operator==(const MessageHead&, const MessageHead&) = default;
};
/// "rank 1 or rank 3". The ranks may repeat.
[[nodiscard]] std::string name_ranks(std::vector<int> ranks);
/// Rank `peer` sent something else.
[[nodiscard]] Error disagreement(int peer, const MessageHead& got,
                                 const MessageHead& expected);
/// Rank `peer` has ended; `why` is its sentence.
[[nodiscard]] Error peer_ended(int peer, const std::string& why);
/// Nothing more came from one of these ranks.
[[nodiscard]] Error peers_late(std::vector<int> peers, Communicator::Tag tag);
/// `abort` was called.
[[nodiscard]] Error aborted(const std::string& why);

}  // namespace troupe::net
