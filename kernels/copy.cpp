#include "kernels/copy.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/check.h"
#include "kernels/cuda/ops.h"

namespace troupe::kernels {
namespace {

void check_rows(std::string_view place, ExecContext& ctx, const Tensor& whole,
                std::span<const Tensor> rows) {
  check_device(place, ctx.device(), {&whole});
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  if (whole.shape().rank() == 0 || whole.dim(0) != num_rows) {
    throw Error(Errc::shape_mismatch, place,
                "wrong number of rows: got " + std::to_string(num_rows) +
                    ", expected the first axis of " + to_string(whole.shape()));
  }
  const Shape row_shape(whole.shape().extents().subspan(1));
  for (const Tensor& row : rows) {
    check_device(place, ctx.device(), {&row});
    check_dtype(place, "a row", row, {whole.dtype()});
    check_shape(place, "a row", row.shape(), row_shape);
  }
}

}  // namespace

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

void gather(ExecContext& ctx, std::span<const Tensor> rows, Tensor& out) {
  check_rows("gather", ctx, out, rows);
  switch (ctx.device().kind) {
    case DeviceKind::cpu: {
      std::byte* to = out.bytes().data();
      for (const Tensor& row : rows) {
        to = std::copy(row.bytes().begin(), row.bytes().end(), to);
      }
      return;
    }
    case DeviceKind::cuda:
      return cuda::gather(ctx, rows, out);
    case DeviceKind::meter:
      return;
  }
}

void scatter(ExecContext& ctx, const Tensor& in, std::span<Tensor> rows) {
  check_rows("scatter", ctx, in, rows);
  switch (ctx.device().kind) {
    case DeviceKind::cpu: {
      const std::byte* from = in.bytes().data();
      for (Tensor& row : rows) {
        std::copy_n(from, row.num_bytes(), row.bytes().data());
        from += row.num_bytes();
      }
      return;
    }
    case DeviceKind::cuda:
      return cuda::scatter(ctx, in, rows);
    case DeviceKind::meter:
      return;
  }
}

Tensor on_device(ExecContext& ctx, const Tensor& tensor) {
  return tensor.device() == ctx.device() ? tensor : clone(ctx, tensor);
}

Tensor borrow(ExecContext& ctx, const Tensor& tensor) {
  ctx.keep(tensor);
  return on_device(ctx, tensor);
}

Tensor on_host(ExecContext& ctx, const Tensor& tensor) {
  if (tensor.device().kind == DeviceKind::cpu) {
    return tensor;
  }
  Tensor host(tensor.shape(), tensor.dtype());
  copy(ctx, tensor, host);
  return host;
}

Tensor read_back(ExecContext& ctx, const Tensor& tensor) {
  if (tensor.device().kind == DeviceKind::cpu) {
    return tensor;
  }
  check_device("read_back", ctx.device(), {&tensor});
  return ctx.device_backend()->read_back(tensor);
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
