#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"
#include "kernels/cpu/ops.h"
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

/// `whole` with its rows, heads and key_width filled in. A row_width of 0
/// stays.
WholeItem whole_of(const HeadsView& q, std::int64_t num_heads,
                   std::int64_t head_dim, const WholeItem& whole) {
  const WholeItem item{
      .rows = check_whole("attention", "rows", whole.first_row + q.base.dim(1),
                          whole.rows),
      .first_row = whole.first_row,
      .num_heads =
          check_whole("attention", "heads", num_heads, whole.num_heads),
      .row_width = whole.row_width,
      .key_width = whole.key_width == 0 ? whole.row_width : whole.key_width};
  for (const std::int64_t width : {item.row_width, item.key_width}) {
    if (width != 0 && width < item.num_heads * head_dim) {
      throw Error(Errc::shape_mismatch, "attention",
                  "rows of the whole are too short: got " +
                      std::to_string(width) + " columns, expected " +
                      std::to_string(item.num_heads * head_dim) + " or more");
    }
  }
  return item;
}

void check_lengths(std::span<const std::int64_t> lengths, std::int64_t items,
                   std::int64_t keys) {
  if (lengths.empty()) {
    return;
  }
  if (static_cast<std::int64_t>(lengths.size()) != items) {
    throw Error(Errc::shape_mismatch, "attention",
                "wrong number of key lengths: got " +
                    std::to_string(lengths.size()) + ", expected " +
                    std::to_string(items));
  }
  for (const std::int64_t length : lengths) {
    if (length < 1 || length > keys) {
      throw Error(Errc::invalid_argument, "attention",
                  "key length out of range: got " + std::to_string(length) +
                      ", expected 1 to " + std::to_string(keys));
    }
  }
}

/// `item` has the rows of the whole.
void check_mask(const ExecContext& ctx, const AttentionMask& mask,
                const HeadsView& q, const HeadsView& k, std::int64_t num_heads,
                const WholeItem& item) {
  const std::int64_t queries = q.base.dim(1);
  const std::int64_t keys = k.base.dim(1);
  if (mask.scale && !(*mask.scale > 0.0F && std::isfinite(*mask.scale))) {
    throw Error(Errc::invalid_argument, "attention",
                "wrong scale: got " + std::to_string(*mask.scale) +
                    ", expected a finite number above 0");
  }
  if (mask.causal && (queries != keys || item.rows != queries)) {
    throw Error(Errc::shape_mismatch, "attention",
                "causal without all rows: got " + std::to_string(queries) +
                    " of " + std::to_string(item.rows) + " queries for " +
                    std::to_string(keys) + " keys, expected as many as keys");
  }
  if (mask.key_blocks < 1 ||
      (mask.key_blocks > 1 &&
       (mask.causal || !mask.key_lengths.empty() || !mask.bias.empty()))) {
    throw Error(Errc::invalid_argument, "attention",
                "wrong number of key blocks: got " +
                    std::to_string(mask.key_blocks) +
                    ", expected at least 1, and 1 beside causal, key lengths "
                    "and a bias");
  }
  check_lengths(mask.key_lengths, q.base.dim(0), keys);
  if (!mask.bias.empty()) {
    check_device("attention", ctx.device(), {&mask.bias});
    check_dtype("attention", "the bias", mask.bias, {DType::f32});
    check_shape("attention", "the bias", mask.bias.shape(),
                {num_heads, queries, keys});
  }
}

/// Query rows of an item that are computed for those of q. A GPU without flash
/// attention computes whole blocks.
std::int64_t rows_computed(const ExecContext& ctx, const HeadsView& q,
                           const HeadsView& k, std::int64_t num_heads,
                           std::int64_t head_dim, const WholeItem& item) {
  constexpr std::int64_t kWidestFlash = 256;
  const std::int64_t rows = q.base.dim(1);
  if (ctx.kind() == DeviceKind::cpu || rows == 0 ||
      (q.base.dtype() != DType::f32 && head_dim <= kWidestFlash)) {
    return rows;
  }
  const std::int64_t block = product_rows(num_heads, k.base.dim(1), item.rows);
  const std::int64_t begin = item.first_row / block * block;
  const std::int64_t end = (item.first_row + rows + block - 1) / block * block;
  return std::min(end, item.rows) - begin;
}

void attend(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
            const HeadsView& v, std::int64_t num_heads, std::int64_t head_dim,
            HeadsView out, const WholeItem& whole, const AttentionMask& mask) {
  check_device("attention", ctx.device(),
               {&q.base, &k.base, &v.base, &out.base});
  if (num_heads < 1 || head_dim < 1) {
    throw Error(Errc::shape_mismatch, "attention",
                "no heads: got " + std::to_string(num_heads) + " of width " +
                    std::to_string(head_dim) + ", expected at least 1 of 1");
  }
  const std::int64_t width = num_heads * head_dim;
  check_rank("attention", "q", q.base, 3);
  if (ctx.kind() == DeviceKind::cpu) {
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
  check_dtype("attention", "out", out.base, {q.base.dtype()});
  check_rank("attention", "out", out.base, 3);
  check_shape("attention", "out", out.base.shape(),
              {q.base.dim(0), q.base.dim(1), out.base.dim(2)});
  check_columns("attention", "out", out.column, width, out.base.dim(2));
  const WholeItem item = whole_of(q, num_heads, head_dim, whole);
  check_mask(ctx, mask, q, k, num_heads, item);
  switch (ctx.device().kind) {
    case DeviceKind::cpu:
      return cpu::attention(ctx, q, k, v, num_heads, head_dim, mask, out);
    case DeviceKind::cuda:
      require(mask.key_blocks == 1, Errc::unsupported, "attention",
              "a GPU does not attend to keys in blocks yet");
      return cuda::attention(ctx, q, k, v, num_heads, head_dim, item, mask,
                             out);
    case DeviceKind::meter:
      ctx.meter().add_flops(
          4.0 *
          static_cast<double>(q.base.dim(0) * rows_computed(ctx, q, k,
                                                            num_heads, head_dim,
                                                            item)) *
          static_cast<double>(width) * static_cast<double>(k.base.dim(1)));
      if (ctx.kind() == DeviceKind::cpu) {
        ctx.meter().note_attention(attention_thread_bytes(
            k.base.dim(1), head_dim, q.base.dtype(), mask.key_blocks));
      }
      return;
  }
  throw_no_backend("attention", ctx.device());
}

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out, const WholeItem& whole,
               const AttentionMask& mask) {
  check_rank("attention", "q", q.base, 3);
  check_shape("attention", "out", out.shape(),
              {q.base.dim(0), q.base.dim(1), num_heads * head_dim});
  attend(ctx, q, k, v, num_heads, head_dim, {out, 0}, whole, mask);
}

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, HeadsView out, const WholeItem& whole,
               const AttentionMask& mask) {
  attend(ctx, q, k, v, num_heads, head_dim, std::move(out), whole, mask);
}

std::int64_t product_rows(std::int64_t num_heads, std::int64_t keys,
                          std::int64_t rows) {
  constexpr std::int64_t kLogitsBytes = std::int64_t{64} << 20U;
  const std::int64_t row_bytes =
      num_heads * keys * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t most =
      std::clamp(kLogitsBytes / row_bytes, std::int64_t{1}, rows);
  const std::int64_t blocks = (rows + most - 1) / most;
  return (rows + blocks - 1) / blocks;
}

std::size_t attention_thread_bytes(std::int64_t keys, std::int64_t head_dim,
                                   DType dtype, std::int64_t key_blocks) {
  return cpu::attention_thread_bytes(keys, head_dim, dtype, key_blocks);
}

}  // namespace troupe::kernels
