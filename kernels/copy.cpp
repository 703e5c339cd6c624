#include "kernels/copy.h"

#include <cstring>

#include "kernels/check.h"

namespace troupe::kernels {

void copy(ExecContext& ctx, const Tensor& from, Tensor& to) {
  check_shape("copy", "the target", to.shape(), from.shape());
  check_dtype("copy", "the target", to, {from.dtype()});
  if (from.empty()) {
    return;
  }
  if (from.device().kind == DeviceKind::cpu &&
      to.device().kind == DeviceKind::cpu) {
    std::memcpy(to.bytes().data(), from.bytes().data(), from.num_bytes());
    return;
  }
  require(ctx.device_backend() != nullptr, Errc::internal, "copy",
          "a context of the CPU cannot reach " +
              to_string(from.device().kind == DeviceKind::cpu ? to.device()
                                                              : from.device()));
  ctx.device_backend()->copy(from, to);
}

Tensor on_device(ExecContext& ctx, const Tensor& tensor) {
  return tensor.device() == ctx.device() ? tensor : clone(ctx, tensor);
}

Tensor on_host(ExecContext& ctx, const Tensor& tensor) {
  if (tensor.device().kind == DeviceKind::cpu) {
    return tensor;
  }
  Tensor host(tensor.shape(), tensor.dtype());
  copy(ctx, tensor, host);
  return host;
}

Tensor clone(ExecContext& ctx, const Tensor& tensor) {
  if (!tensor.owner()) {
    return tensor;
  }
  Tensor copied = ctx.empty(tensor.shape(), tensor.dtype());
  copy(ctx, tensor, copied);
  return copied;
}

}  // namespace troupe::kernels
