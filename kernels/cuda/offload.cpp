#include <array>
#include <cstddef>
#include <memory>

#include "kernels/core/error.h"
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/pinned.cuh"

namespace troupe::kernels::cuda {
namespace {

/// The two places of one context, and the stream that fills them beside the
/// context's own.
///
/// A group's copy may begin when the work that used its place before is done:
/// at a `fetch`, all work queued so far belongs to earlier ones, so one event
/// recorded there covers the place that is filled next.
class WeightPlaces {
 public:
  explicit WeightPlaces(Backend& backend)
      : backend_(backend), copies_(std::make_shared<Stream>(backend.device())) {
    check(cudaEventCreateWithFlags(&earlier_, cudaEventDisableTiming),
          "weights");
    for (Place& place : places_) {
      check(cudaEventCreateWithFlags(&place.filled, cudaEventDisableTiming),
            "weights");
    }
  }
  ~WeightPlaces() {
    const OnDevice on(backend_.device());
    ignore(cudaStreamSynchronize(copies_->get()));
    ignore(cudaEventDestroy(earlier_));
    for (const Place& place : places_) {
      ignore(cudaEventDestroy(place.filled));
    }
  }
  WeightPlaces(const WeightPlaces&) = delete;
  WeightPlaces& operator=(const WeightPlaces&) = delete;

  void fetch(const Tensor& group, const Tensor& next, std::size_t room) {
    make_room(room);
    check(cudaEventRecord(earlier_, backend_.stream()), "weights");
    std::size_t here = place_of(group);
    if (here == places_.size()) {  // the first call, or out of turn
      here = 1 - newest_;
      fill(here, group);
    }
    check(cudaStreamWaitEvent(backend_.stream(), places_[here].filled, 0),
          "weights");
    newest_ = here;
    if (place_of(next) == places_.size()) {
      fill(1 - here, next);
    }
  }

  /// Where the bytes at `pinned` stand on the device. Only in the group that
  /// was fetched last: the stream has not waited for the copy of the next.
  [[nodiscard]] std::shared_ptr<std::byte> find(const std::byte* pinned) const {
    const Place& place = places_[newest_];
    const std::byte* first = place.group.bytes().data();
    require(first != nullptr && pinned >= first &&
                pinned < first + place.group.num_bytes(),
            Errc::internal, "weights",
            "a layer is used whose group was not fetched last");
    return {place.memory, place.memory.get() + (pinned - first)};
  }

 private:
  struct Place {
    std::shared_ptr<std::byte> memory;
    Tensor group;  ///< the pinned group whose copy it holds or awaits
    cudaEvent_t filled = nullptr;
  };

  /// Index of the place with `group`; the number of places if there is none.
  [[nodiscard]] std::size_t place_of(const Tensor& group) const {
    std::size_t i = 0;
    while (i < places_.size() && places_[i].group.owner() != group.owner()) {
      ++i;
    }
    return i;
  }

  void make_room(std::size_t room) {
    if (room <= room_) {
      return;
    }
    // The old places are released behind the copies into them.
    backend_.synchronize();
    check(cudaStreamSynchronize(copies_->get()), "weights");
    for (Place& place : places_) {
      place.group = {};
      place.memory = backend_.allocate(room);
    }
    room_ = room;
    // Memory belongs to the backend's stream before the other may write it.
    backend_.synchronize();
  }

  void fill(std::size_t index, const Tensor& group) {
    Place& place = places_[index];
    check(cudaStreamWaitEvent(copies_->get(), earlier_, 0), "weights");
    check(cudaMemcpyAsync(place.memory.get(), group.bytes().data(),
                          group.num_bytes(), cudaMemcpyHostToDevice,
                          copies_->get()),
          "weights");
    check(cudaEventRecord(place.filled, copies_->get()), "weights");
    place.group = group;
  }

  Backend& backend_;
  std::shared_ptr<Stream> copies_;
  cudaEvent_t earlier_ = nullptr;
  std::array<Place, 2> places_;
  std::size_t room_ = 0;
  std::size_t newest_ = 0;
};

}  // namespace

Tensor pinned_memory(ExecContext& ctx, std::int64_t bytes) {
  (void)Backend::of(ctx);
  return {std::shared_ptr<std::byte>(
              pin_memory(static_cast<std::size_t>(bytes) + 1),
              [](std::byte* freed) {
                const std::scoped_lock lock(set_up_mutex());
                ignore(cudaFreeHost(freed));
              }),
          Shape{bytes}, DType::u8};
}

void fetch_weights(ExecContext& ctx, const Tensor& group, const Tensor& next,
                   std::size_t room) {
  Backend& backend = Backend::of(ctx);
  require(!backend.is_recording(), Errc::internal, "weights",
          "weights are fetched while work is recorded");
  backend.state<WeightPlaces>().fetch(group, next, room);
}

Tensor fetched_weight(ExecContext& ctx, const Tensor& pinned) {
  Backend& backend = Backend::of(ctx);
  return {backend.state<WeightPlaces>().find(pinned.bytes().data()),
          pinned.shape(), pinned.dtype(), ctx.device()};
}

}  // namespace troupe::kernels::cuda
