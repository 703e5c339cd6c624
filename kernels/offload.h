#pragma once

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/linear.h"

namespace troupe::kernels {

/// Layers whose weight matrices wait in pinned memory of the host and visit the
/// GPU in turn, for networks that are larger than its memory. Layers that are
/// used together (a block's) are one group and one copy. Each context has room
/// for two groups on the device: while one is computed with, the next is copied
/// beside the queue. Biases stay on the device.
///
/// On the CPU nothing moves and nothing is copied.
/// Thread: `add` before the layers are shared; `visit` from any, one ctx per
/// thread.
class OffloadedLayers {
 public:
  /// Takes the matrices of `layers`, which ctx packed, off the device. Their
  /// memory there is free on return. Returns the group's number.
  /// Errors: Errc::out_of_memory when the host has no more memory to pin.
  std::size_t add(ExecContext& ctx,
                  std::initializer_list<PackedLinear*> layers);

  [[nodiscard]] bool empty() const noexcept { return groups_.empty(); }

  /// What is queued from here on may use the layers of `group`, until the next
  /// but one visit; `next` is copied meanwhile.
  void visit(ExecContext& ctx, std::size_t group, std::size_t next) const;

 private:
  std::vector<Tensor> groups_;  ///< u8, pinned; empty on the CPU
  std::size_t largest_ = 0;
};

}  // namespace troupe::kernels
