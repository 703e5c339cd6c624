#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/linear.h"

namespace troupe::kernels {

/// Layers whose weight matrices lie in pinned memory of the host and are
/// fetched to the GPU in turn, for networks that are larger than its memory.
/// Layers that are used together (those of a block) are one group and one copy.
/// Each context has room for two groups on the device: while it computes with
/// one, the next is copied on another stream. Biases stay on the device.
///
/// On the CPU nothing is copied.
/// Thread: `add` before the layers are shared; `fetch` from any, one ctx per
/// thread.
class OffloadedLayers {
 public:
  /// Moves the matrices of `layers`, which ctx packed, from the device to the
  /// host; their memory on the device is free on return. Returns the group's
  /// number.
  /// Errors: Errc::out_of_memory when the host has no more memory to pin.
  std::size_t add(ExecContext& ctx,
                  std::initializer_list<PackedLinear*> layers);

  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }

  /// Work that is queued between this call and the next may use the layers of
  /// `group`. Also starts to copy `next`, the group of the next call.
  void fetch(ExecContext& ctx, std::size_t group, std::size_t next) const;

 private:
  std::vector<Tensor> groups_;  ///< u8, pinned; empty on the CPU
  std::size_t largest_ = 0;
};

}  // namespace troupe::kernels
