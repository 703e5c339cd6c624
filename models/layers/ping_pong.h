#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::models {

/// Two buffers that take turns as input and output of the layers.
class PingPong {
 public:
  PingPong(Workspace& workspace, std::int64_t elements, DType dtype)
      : memory_{workspace.take({elements}, dtype),
                workspace.take({elements}, dtype)} {}

  /// The newest tensor.
  [[nodiscard]] Tensor& now() { return views_[newest_]; }
  /// Runs layer(newest, out) with `out` in the other buffer, which becomes the
  /// newest.
  template <typename Layer>
  void apply(const Shape& shape, const Layer& layer) {
    const Tensor from = views_[newest_];
    layer(from, next(shape));
  }
  /// A tensor in the other buffer, which becomes the newest.
  [[nodiscard]] Tensor& next(const Shape& shape) {
    newest_ = 1 - newest_;
    const Tensor& memory = memory_[newest_];
    views_[newest_] =
        Tensor(memory.owner(), shape, memory.dtype(), memory.device());
    return views_[newest_];
  }

 private:
  Tensor memory_[2];
  Tensor views_[2];
  int newest_ = 0;
};

}  // namespace troupe::models
