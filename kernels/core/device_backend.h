#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/core/device.h"
#include "kernels/core/tensor.h"

namespace troupe {

/// What a run on a device with memory of its own may trade. Ignored on the CPU,
/// which always computes as the defaults say.
struct DeviceOptions {
  /// A row's bits do not depend on the rows beside it. Off ("free mode"), the
  /// libraries may choose by the whole batch and split sums.
  bool batch_invariant = true;
  /// Lets f32 products round their operands to TF32 (10 bits of mantissa).
  bool tf32 = false;
};

/// A moment in a device's queue (`DeviceBackend::mark`): passed when everything
/// that was queued before it is done. It may outlive its backend.
/// Errors: as DeviceBackend; Errc::internal on the thread that records work of
/// the queue. Thread: any, one at a time.
class Moment {
 public:
  virtual ~Moment() = default;
  /// Asks, without waiting.
  virtual bool has_passed() = 0;
  /// Returns when it has passed; what is queued behind it is not waited for.
  virtual void wait() = 0;
};

/// Port: a device with memory and a queue of its own, as one ExecContext sees
/// it. What is queued runs in order and later; the host does not wait unless a
/// function says so.
///
/// Several backends may serve one device, each with its own queue. A tensor
/// that crosses from one to another must be complete (`synchronize`, or a mark
/// that passed) and be held until the other read it (`ExecContext::keep`).
/// Errors (all): Errc::device_full with the numbers, Errc::out_of_memory where
/// the host has no more memory to pin; Errc::device_lost when
/// the device can do no more work (a later call says so again).
/// Thread: one at a time, `allocate` and the release of memory from any.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Uninitialised memory, aligned to 256 bytes. Released in the order of the
  /// queue: work that was queued before may still use it.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(
      std::size_t bytes) = 0;

  /// Queues a copy of all bytes; shapes and dtypes agree. Either side may be on
  /// the host, on this device, or on another device of the same kind. A host
  /// source may be reused at once; a host target is complete on return.
  virtual void copy(const Tensor& from, Tensor& to) = 0;

  /// Queues a copy of a tensor of this device into memory of the host, and
  /// returns it: complete when a `mark` taken afterwards has passed, and not to
  /// be touched before that. The host does not wait, since the memory is pinned
  /// (a copy to other memory would make it wait); it comes from a pool that
  /// keeps what it has, and may outlive the backend. The tensor returned may be
  /// let go at any time, on any thread (but when the backend is gone, none that
  /// records); `from`, as an operand of any other work. Refused
  /// (Errc::internal) while work is recorded.
  [[nodiscard]] virtual Tensor read_back(const Tensor& from) = 0;

  /// The moment behind everything queued so far. Refused (Errc::internal) while
  /// work is recorded.
  [[nodiscard]] virtual std::unique_ptr<Moment> mark() = 0;

  /// Returns when everything queued so far is done.
  virtual void synchronize() = 0;

  /// Queues what `fn` queues. From the second call with a key on it is
  /// recorded, and from the third on played back without calling `fn`; so `fn`
  /// must queue the same work on the same memory for equal keys, allocate
  /// nothing and copy nothing from or to the host. Returns true when `fn` was
  /// called.
  virtual bool replay(std::span<const std::uint64_t> key,
                      const std::function<void()>& fn) = 0;
  /// Drops all recordings: the memory they name is about to be released.
  virtual void forget_recordings() = 0;
};

/// A backend with a queue of its own. Errors: Errc::unsupported with the reason
/// when the device, its driver or a library is missing.
/// Defined by kernels/cuda, or by its stub.
[[nodiscard]] std::shared_ptr<DeviceBackend> make_device_backend(
    Device device, const DeviceOptions& options);

}  // namespace troupe
