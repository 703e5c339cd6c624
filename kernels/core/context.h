#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/device_backend.h"
#include "kernels/core/meter.h"
#include "kernels/core/pool.h"
#include "kernels/core/queue_mark.h"
#include "kernels/core/tensor.h"

namespace troupe {

class ShardTeam;

/// Scratch memory that is taken in stack order and reused from step to step:
/// after the first step of a shape nothing more is allocated. When the
/// outermost scope ends, one block as large as the peak replaces the pieces.
///
/// When a `Scope` ends, the memory of all tensors taken inside it is free
/// again.
/// Thread: the owning context's thread only (pieces of a pool run may use
/// tensors taken before the run).
class Workspace {
 public:
  class Scope {
   public:
    explicit Scope(Workspace& workspace);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    std::size_t chunk_;
    std::size_t used_;
    std::size_t taken_bytes_;
  };

  /// Memory of the host (no backend), or of the backend's device.
  explicit Workspace(Device device = {}, DeviceBackend* backend = nullptr)
      : device_(device), backend_(backend) {}

  /// Uninitialised memory, aligned to 64 bytes (256 on a device).
  /// Errors: Errc::out_of_memory, Errc::device_full.
  [[nodiscard]] Tensor take(const Shape& shape, DType dtype);
  /// Grows whenever the workspace allocates or releases memory. The same calls
  /// of `take` may then give other addresses than before.
  [[nodiscard]] std::uint64_t generation() const noexcept {
    return generation_;
  }
  /// Where the next `take` starts. From one position, within one generation,
  /// the same calls of `take` give the same addresses.
  struct Position {
    std::uint64_t chunk;
    std::uint64_t used;
  };
  [[nodiscard]] Position position() const noexcept;
  /// Bytes held at the moment.
  [[nodiscard]] std::size_t capacity_bytes() const noexcept;
  /// The most bytes that were taken at a time.
  [[nodiscard]] std::size_t peak_bytes() const noexcept { return peak_bytes_; }

 private:
  struct Chunk {
    Tensor memory;  // u8
    std::size_t used = 0;
  };
  [[nodiscard]] Tensor allocate(std::size_t bytes) const;
  [[nodiscard]] Tensor allocate_up_to(std::size_t wanted,
                                      std::size_t least) const;
  void merge() noexcept;

  Device device_;
  DeviceBackend* backend_;
  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;
  std::size_t taken_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  std::uint64_t generation_ = 0;
  int depth_ = 0;
};

/// Everything an operation needs besides its operands. One per executor
/// thread, passed explicitly; no globals, no thread-locals.
class ExecContext {
 public:
  /// A context with its own pool of `num_threads`, and for a GPU with a queue
  /// of its own. Errors: as make_device_backend.
  explicit ExecContext(int num_threads = 1, Device device = {},
                       const DeviceOptions& options = {});
  /// A context whose operations only add up their work in `meter`.
  explicit ExecContext(std::shared_ptr<Meter> meter);
  ExecContext(const ExecContext&) = delete;
  ExecContext& operator=(const ExecContext&) = delete;
  ~ExecContext();

  [[nodiscard]] Device device() const noexcept { return device_; }
  /// The kind of device that decides how work is cut: device().kind, or the
  /// kind that the meter stands for.
  [[nodiscard]] DeviceKind kind() const noexcept { return kind_; }
  /// Only on a meter's context.
  [[nodiscard]] Meter& meter();
  [[nodiscard]] ThreadPool& pool() noexcept { return pool_; }
  [[nodiscard]] int num_threads() const noexcept { return pool_.num_threads(); }
  [[nodiscard]] Workspace& workspace() noexcept { return workspace_; }

  /// Null on the CPU.
  [[nodiscard]] DeviceBackend* device_backend() noexcept {
    return device_backend_.get();
  }
  /// An uninitialised tensor on this context's device that outlives scopes.
  /// Errors: Errc::out_of_memory, Errc::device_full.
  [[nodiscard]] Tensor empty(const Shape& shape, DType dtype);
  /// Waits until everything queued on the device is done. Does nothing on the
  /// CPU. Errors: as DeviceBackend.
  void synchronize();
  /// A mark behind everything queued so far: more work may be queued before
  /// anyone waits for it. The mark takes over the tensors that `keep` holds. On
  /// the CPU it has passed at once. Errors: as DeviceBackend::mark; the context
  /// then goes on keeping the tensors.
  [[nodiscard]] QueueMark mark();
  /// Holds a tensor's memory until the next `synchronize`, or until the next
  /// `mark` has passed. For operands that another context allocated and may
  /// release. Does nothing on the CPU.
  void keep(const Tensor& tensor);
  /// Runs fn. On a device, work with a key that comes again is recorded and
  /// played back: see DeviceBackend::replay. fn must take memory from the
  /// workspace alone; this function adds the workspace's position to the key.
  /// `owner` tells the keys of different objects apart. A recording holds its
  /// owner, so the owner's address stays its own. Ticks inside fn are counted
  /// on every call. With more than `kMostReplayed` keys all are forgotten: keys
  /// may name operands that come and go.
  static constexpr std::size_t kMostReplayed = 128;
  void replay(const std::shared_ptr<const void>& owner,
              std::span<const std::uint64_t> key,
              const std::function<void()>& fn);

  /// A private buffer of at least `bytes` for pool thread `thread`, aligned to
  /// 64 bytes, grown when needed, contents undefined. For the scratchpads of
  /// library objects: an object that two threads share must not own one.
  [[nodiscard]] std::byte* scratch(int thread, std::size_t bytes);
  /// Bytes of all these buffers. Thread: the context's, not inside a pool run.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept;

  /// Called by models after a block over `rows` rows: reports progress and
  /// honours a stop.
  /// Errors: Errc::interrupted when `request_stop` was called.
  void tick(std::uint64_t rows = 1);
  void request_stop() noexcept { stop_requested_ = true; }
  void clear_stop() noexcept { stop_requested_ = false; }
  [[nodiscard]] bool stop_requested() const noexcept { return stop_requested_; }
  /// Blocks so far, counted once per row. Thread: any.
  [[nodiscard]] std::uint64_t ticks() const noexcept { return ticks_; }

  /// From here on ticks count for `other`, too, and its stop ends them. It must
  /// outlive this context.
  void follow(ExecContext& other) noexcept { followed_ = &other; }

  /// The contexts that compute this one's passes; null: it computes them alone.
  /// Set before the first pass.
  [[nodiscard]] ShardTeam* team() const noexcept { return team_.get(); }
  void set_team(std::shared_ptr<ShardTeam> team) { team_ = std::move(team); }

  /// Opaque per-context state of a backend (library handles, streams).
  [[nodiscard]] std::shared_ptr<void>& backend() noexcept { return backend_; }

 private:
  Device device_;
  DeviceKind kind_;
  ThreadPool pool_;
  std::shared_ptr<DeviceBackend> device_backend_;
  Workspace workspace_;
  std::vector<Tensor> scratch_;
  std::vector<Tensor> kept_;
  struct Replayed {
    std::shared_ptr<const void> owner;
    std::uint64_t ticks = 0;
  };
  std::map<std::vector<std::uint64_t>, Replayed> replayed_;
  std::uint64_t replayed_generation_ = 0;
  std::atomic<bool> stop_requested_{false};
  std::atomic<std::uint64_t> ticks_{0};
  std::shared_ptr<void> backend_;
  ExecContext* followed_ = nullptr;
  std::shared_ptr<ShardTeam> team_;  ///< last: it uses the others
};

}  // namespace troupe
