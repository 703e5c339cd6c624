#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <typeindex>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/device_backend.h"
#include "kernels/cuda/libraries.cuh"
#include "kernels/cuda/mark_counter.cuh"
#include "kernels/cuda/pinned.cuh"
#include "kernels/cuda/staging.cuh"
#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// The GPU side of one ExecContext: a stream, library handles, recorded graphs,
/// and the state that operations keep.
class Backend final : public DeviceBackend {
 public:
  /// Errors: Errc::unsupported when a library is missing; Errc::device_lost.
  Backend(int device, const DeviceOptions& options);
  ~Backend() override;

  /// The backend of a context on a GPU. Also makes that GPU the calling
  /// thread's current device.
  [[nodiscard]] static Backend& of(ExecContext& ctx);

  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes) override;
  void copy(const Tensor& from, Tensor& to) override;
  void copy_columns(const Tensor& from, std::int64_t from_first, Tensor& to,
                    std::int64_t to_first, std::int64_t count) override;
  [[nodiscard]] Tensor read_back(const Tensor& from) override;
  [[nodiscard]] std::unique_ptr<DeviceEvent> mark() override;
  void wait_for(const DeviceEvent& event) override;
  void synchronize() override;
  [[nodiscard]] void* queue() override { return stream_->get(); }
  std::shared_ptr<QueueWatch> watch(std::function<void()> on_wait) override;
  bool replay(std::span<const std::uint64_t> key,
              const std::function<void()>& fn) override;
  void between(const std::function<void()>& fn) override;
  void forget_recordings() override;

  [[nodiscard]] int device() const noexcept { return stream_->device(); }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_->get(); }
  [[nodiscard]] const DeviceOptions& options() const noexcept {
    return options_;
  }
  [[nodiscard]] int num_multiprocessors() const noexcept {
    return num_multiprocessors_;
  }
  [[nodiscard]] const Libraries& libraries() const noexcept {
    return libraries_;
  }
  /// True while `replay` records: nothing may be allocated or waited for.
  [[nodiscard]] bool is_recording() const noexcept { return is_recording_; }

  /// State that an operation keeps between calls (handles, chosen algorithms,
  /// plans), made on first use as State(*this). States are destroyed in no
  /// particular order: a state whose destructor uses a second state must hold
  /// the second by `shared_state`.
  template <typename State>
  [[nodiscard]] State& state() {
    return *static_cast<State*>(slot_of<State>().get());
  }
  template <typename State>
  [[nodiscard]] std::shared_ptr<State> shared_state() {
    return std::static_pointer_cast<State>(slot_of<State>());
  }

 private:
  template <typename State>
  [[nodiscard]] const std::shared_ptr<void>& slot_of() {
    std::shared_ptr<void>& slot = states_[typeid(State)];
    if (!slot) {
      const std::scoped_lock lock(set_up_mutex());
      slot = std::make_shared<State>(*this);
    }
    return slot;
  }
  /// A graph, and what is called behind it.
  struct Piece {
    cudaGraphExec_t graph = nullptr;
    std::function<void()> then;
  };
  using Pieces = std::vector<Piece>;
  struct Recording {
    bool has_run = false;
    Pieces pieces;  ///< none: not recorded yet
  };
  class Recorder;
  /// Records the work that fn queues, piece by piece, and launches each piece
  /// once.
  [[nodiscard]] Pieces record(const std::function<void()>& fn);
  void destroy_forgotten() noexcept;

  std::shared_ptr<Stream> stream_;
  DeviceOptions options_;
  Libraries libraries_;
  int num_multiprocessors_ = 0;
  Recorder* recorder_ = nullptr;  ///< while `record` runs
  bool is_recording_ = false;
  Staging staging_;
  std::shared_ptr<PinnedPool> pinned_;
  std::map<std::vector<std::uint64_t>, Recording> recordings_;
  std::vector<cudaGraphExec_t> forgotten_;  ///< may still be running
  std::map<std::type_index, std::shared_ptr<void>> states_;
  std::function<void()> on_wait_;
  std::shared_ptr<MarkCounter> counter_;  ///< while the queue is watched
  std::set<std::shared_ptr<MarkCounter>> held_by_;  ///< others'
};

}  // namespace troupe::kernels::cuda
