#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "net/communicator.h"

// The communicator of GPUs. NCCL is loaded when it is first needed. In a build
// without it the functions throw Errc::unsupported.

namespace troupe::net {

/// Names a new group of ranks. One rank makes the id, and the caller gives it
/// to the other ranks. A process that knows the id can join, so the id is a
/// secret. An id is never used twice: each epoch of a group has its own.
using NcclId = std::array<std::byte, 128>;

/// Errors: Errc::unsupported where the library is missing or too old;
/// Errc::unreachable where it finds no network. Thread: any.
[[nodiscard]] NcclId make_nccl_id();
/// "2.28.9". Errors: Errc::unsupported. Thread: any.
[[nodiscard]] std::string nccl_version();

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  NcclId id{};
  /// The GPU. At most one communicator of a device and epoch: NCCL may hang
  /// where one device's communicators are ended one after the other.
  int device = 0;
  /// For all ranks to come.
  TimePoint deadline;
  /// Called while it waits for them. What it throws ends the wait.
  std::function<void()> on_wait;
  /// How long an operation that failed, and the destructor, wait for NCCL to
  /// let go of this rank's memory. Only then may the memory be touched.
  Duration abort_patience = std::chrono::seconds(5);
  /// Called if it has not let go by then, once. NCCL's thread is left behind,
  /// and NCCL may still write to memory of the GPU: nothing that is computed
  /// there can be trusted.
  std::function<void()> on_hanging_abort;
};

/// The communicator of a GPU, whose exchanges may run in the order of the GPU's
/// other work.
class NcclCommunicator : public Communicator {
 public:
  /// Queues an exchange with other ranks on `queue` (DeviceBackend::queue of
  /// the rank's GPU): it runs behind what is queued there, and what is queued
  /// later finds the received bytes. Returns when NCCL has taken the calls. No
  /// tags are sent, so the ranks know from elsewhere that they agree; messages
  /// have bytes. An exchange whose peer fails may never end: `abort` ends it.
  /// Errors: as an operation's; what happens later is thrown by the next call
  /// or by `check`.
  virtual void queue_exchange(void* queue, const Call& call,
                              std::span<const Send> sends,
                              std::span<const Receive> receives) = 0;
};

/// A rank's communicator. Memory: that of its GPU. When an operation begins,
/// what was queued on that memory is done, its allocation too
/// (`ExecContext::synchronize`, or a mark that has passed); what was received
/// is complete when it returns. A tag costs one more message of 16 bytes. Made
/// and ended while no work is recorded on the device. Errors: as make_nccl_id;
/// Errc::unreachable if not all ranks have come by the deadline;
/// Errc::unsupported for what NCCL refuses. Operations have two errors more:
/// Errc::device_lost, and Errc::device_full where memory for tags or sums is
/// missing. NCCL does not say which rank it waits for, so an error names all
/// that may be meant. Thread: each operation makes the device the thread's
/// current one.
[[nodiscard]] std::unique_ptr<NcclCommunicator> make_nccl_communicator(
    NcclOptions options);

}  // namespace troupe::net
