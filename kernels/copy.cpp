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

void copy_columns(ExecContext& ctx, const Tensor& from, std::int64_t from_first,
                  Tensor& to, std::int64_t to_first, std::int64_t count) {
  constexpr std::string_view kPlace = "copy_columns";
  check_device(kPlace, ctx.device(), {&to});
  check_dtype(kPlace, "the target", to, {from.dtype()});
  if (to.empty() || count == 0) {
    return;
  }
  const std::int64_t rows = to.dim(0);
  require(!from.empty() && from.dim(0) == rows, Errc::shape_mismatch, kPlace,
          "wrong number of rows: got " + to_string(from.shape()) +
              ", expected as many as " + to_string(to.shape()));
  check_columns(kPlace, "the source", from_first, count,
                from.num_elements() / rows);
  check_columns(kPlace, "the target", to_first, count,
                to.num_elements() / rows);
  if (ctx.device_backend() != nullptr) {
    return ctx.device_backend()->copy_columns(from, from_first, to, to_first,
                                              count);
  }
  check_device(kPlace, ctx.device(), {&from});
  const auto bytes_of = [&](std::int64_t columns) {
    return static_cast<std::size_t>(columns) * size_of(to.dtype());
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(to.item(row).bytes().data() + bytes_of(to_first),
                from.item(row).bytes().data() + bytes_of(from_first),
                bytes_of(count));
  }
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
