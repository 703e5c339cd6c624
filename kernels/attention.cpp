#include "kernels/attention.h"

#include "kernels/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cuda/ops.h"
#include "kernels/linear.h"

namespace troupe::kernels {
namespace {

void check_view(std::string_view what, const HeadsView& view,
                const HeadsView& q, std::int64_t width) {
  check_rank("attention", what, view.base, 3);
  check_dtype("attention", what, view.base, {q.base.dtype()});
  check_shape("attention", what, view.base.shape(),
              {q.base.dim(0), view.base.dim(1), view.base.dim(2)});
  check_columns("attention", what, view.column, width, view.base.dim(2));
}

/// `whole` with its rows and heads filled in. A row_width of 0 stays.
WholeItem whole_of(const HeadsView& q, std::int64_t num_heads,
                   std::int64_t head_dim, const WholeItem& whole) {
  const WholeItem item{
      check_whole("attention", "rows", q.base.dim(1), whole.rows),
      check_whole("attention", "heads", num_heads, whole.num_heads),
      whole.row_width};
  if (item.row_width != 0 && item.row_width < item.num_heads * head_dim) {
    throw Error(Errc::shape_mismatch, "attention",
                "rows of the whole are too short: got " +
                    std::to_string(item.row_width) + " columns, expected " +
                    std::to_string(item.num_heads * head_dim) + " or more");
  }
  return item;
}

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out, const WholeItem& whole) {
  check_device("attention", ctx.device(), {&q.base, &k.base, &v.base, &out});
  if (num_heads < 1 || head_dim < 1) {
    throw Error(Errc::shape_mismatch, "attention",
                "no heads: got " + std::to_string(num_heads) + " of width " +
                    std::to_string(head_dim) + ", expected at least 1 of 1");
  }
  const std::int64_t width = num_heads * head_dim;
  check_rank("attention", "q", q.base, 3);
  if (ctx.device().kind == DeviceKind::cpu) {
    check_dtype("attention", "q", q.base, {DType::f32, DType::bf16});
  } else {
    check_dtype("attention", "q", q.base,
                {DType::f32, DType::bf16, DType::f16});
  }
  check_view("q", q, q, width);
  check_view("k", k, q, width);
  check_view("v", v, q, width);
  check_shape("attention", "v", v.base.shape(),
              {k.base.dim(0), k.base.dim(1), v.base.dim(2)});
  if (k.base.dim(1) < 1) {
    throw Error(Errc::shape_mismatch, "attention",
                "no keys: got 0, expected at least 1");
  }
  check_dtype("attention", "out", out, {q.base.dtype()});
  check_shape("attention", "out", out.shape(),
              {q.base.dim(0), q.base.dim(1), width});
  const WholeItem item = whole_of(q, num_heads, head_dim, whole);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::attention(ctx, q, k, v, num_heads, head_dim, out);
    case DeviceKind::cuda:
      return cuda::attention(ctx, q, k, v, num_heads, head_dim, item, out);
  }
  throw_no_backend("attention", ctx.device());
}

}  // namespace troupe::kernels
