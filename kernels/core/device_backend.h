#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/core/device.h"
#include "kernels/core/tensor.h"

namespace troupe {

/// What a GPU may give up for speed. The CPU ignores these options: it always
/// computes as the defaults say.
struct DeviceOptions {
  /// A row's bits do not depend on the other rows of its batch. If off ("free
  /// mode"), the libraries may choose algorithms by the size of the batch and
  /// may split sums.
  bool batch_invariant = true;
  /// Lets f32 products round their operands to TF32 (10 bits of mantissa).
  bool tf32 = false;
};

/// A point in a device's queue (`DeviceBackend::mark`). The point has passed
/// when all work queued before it is done. An event may outlive its backend.
/// Errors: as DeviceBackend; Errc::internal on the thread that records work of
/// the queue. Thread: any, one at a time.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// Does not wait.
  virtual bool has_passed() = 0;
  /// Returns when the point has passed. Does not wait for later work.
  virtual void wait() = 0;
};

/// The marks of a queue that may hang (DeviceBackend::watch). No function asks
/// the device or waits. Thread: any.
class QueueWatch {
 public:
  virtual ~QueueWatch() = default;
  /// Marks since `watch`. Numbers wrap around.
  [[nodiscard]] virtual std::uint32_t marks_set() const = 0;
  [[nodiscard]] virtual std::uint32_t marks_passed() const = 0;
  /// Queues that wait for marks of this one go on at once, though these have
  /// not passed.
  virtual void release_waiters() = 0;
  /// Nobody waits for this queue any more: every wait fails with
  /// Errc::device_lost. What it holds of the host and of the device is never
  /// released, since that would wait for the queue.
  virtual void abandon() = 0;
};

/// Port: a device with memory and a queue of its own, as one ExecContext sees
/// it. Queued work runs later, in order. The host waits only where a function
/// says so.
///
/// Several backends may serve one device, each with its own queue. Before one
/// reads a tensor that another wrote, the tensor must be complete
/// (`synchronize`, or a mark that has passed), or the reader's queue must wait
/// for it (`wait_for`); it must be held until the reading is done
/// (`ExecContext::keep`).
/// Errors (all): Errc::device_full with the numbers; Errc::out_of_memory where
/// the host has no more memory to pin; Errc::device_lost when the device can do
/// no more work (every later call says so again).
/// Thread: one at a time; `allocate` and the release of memory from any.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Uninitialised memory, aligned to 256 bytes. Its release is queued too:
  /// work that was queued before may still use it.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(
      std::size_t bytes) = 0;

  /// Queues a copy of all bytes; shapes and dtypes agree. Either side may be on
  /// the host, on this device, or on another device of the same kind. A host
  /// source may be reused at once; a host target is complete on return.
  virtual void copy(const Tensor& from, Tensor& to) = 0;

  /// Queues a copy of `count` columns of every row (axis 0), from column
  /// `from_first` of `from` to column `to_first` of `to`. The tensors have as
  /// many rows and the same dtype. The target is on this device, the source on
  /// any device of the same kind.
  virtual void copy_columns(const Tensor& from, std::int64_t from_first,
                            Tensor& to, std::int64_t to_first,
                            std::int64_t count) = 0;

  /// Queues a copy of `from`, a tensor of this device, into pinned memory of
  /// the host, and returns the copy without waiting. The copy is complete when
  /// a `mark` taken afterwards has passed; the copy must not be touched before.
  /// It may outlive the backend. It may be released at any time and on any
  /// thread; once the backend is gone, not on a thread that records. `from` may
  /// be released like an operand of any other queued work. Refused
  /// (Errc::internal) while work is recorded.
  [[nodiscard]] virtual Tensor read_back(const Tensor& from) = 0;

  /// An event behind everything queued so far. Refused (Errc::internal) while
  /// work is recorded.
  [[nodiscard]] virtual std::unique_ptr<DeviceEvent> mark() = 0;

  /// Everything queued later runs behind the event, which a backend of this
  /// kind made: of this device or of another one. The host does not wait. The
  /// event may be released at once. Refused (Errc::internal) while work is
  /// recorded.
  virtual void wait_for(const DeviceEvent& event) = 0;

  /// Returns when all work queued so far is done.
  virtual void synchronize() = 0;
  /// The queue, for libraries that queue work by themselves: a cudaStream_t.
  [[nodiscard]] virtual void* queue() = 0;

  /// For a queue that other queues wait for, and that may hang. From here on
  /// its marks are counted. Where the host waits for the queue it calls
  /// `on_wait` again and again; what this throws ends the wait. An empty
  /// `on_wait` ends the watch. Null where nothing is watched.
  virtual std::shared_ptr<QueueWatch> watch(std::function<void()> /*on_wait*/) {
    return nullptr;
  }

  /// Queues what `fn` queues. The first call with a key runs `fn`, the second
  /// records what it queues, and every later call plays the recording without
  /// calling `fn`. So for equal keys `fn` must queue the same work on the same
  /// memory; from the second call on it must allocate nothing, and copy nothing
  /// from or to the host. Returns whether `fn` was called.
  virtual bool replay(std::span<const std::uint64_t> key,
                      const std::function<void()>& fn) = 0;
  /// Calls `fn` between what was queued before and what is queued later. A
  /// recording is cut here: `fn` is no part of it, and may do all that is
  /// refused while work is recorded. Every playback calls it again, at this
  /// place.
  virtual void between(const std::function<void()>& fn) = 0;
  /// Drops all recordings. To be called when memory that they use is released.
  virtual void forget_recordings() = 0;
};

/// A backend with a queue of its own. Errors: Errc::unsupported with the reason
/// when the device, its driver or a library is missing.
/// Defined by kernels/cuda, or by its stub.
[[nodiscard]] std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& options);

}  // namespace troupe
