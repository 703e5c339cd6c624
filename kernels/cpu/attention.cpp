#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

// Logits of one block: at most this many, so that they stay in the cache and
// memory does not grow with the square of the tokens.
constexpr std::int64_t kBlockLogits = 131072;
constexpr std::int64_t kMaxBlockRows = 256;
constexpr std::int64_t kMinBlockRows = 32;
constexpr std::int64_t kGatherRows = 32;
constexpr std::size_t kAlignment = 64;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Columns of q and k in the product of logits. The matrix unit takes 32 bf16
/// at a time and is almost twice as fast without a remainder (head_dim 72:
/// 16 against 28 µs for 256 × 256 logits); columns of zeros add nothing.
std::int64_t padded_depth(std::int64_t head_dim, DType dtype) {
  constexpr std::int64_t kTileDepth = 32;
  const bool tiles = dtype == DType::bf16 && dnnl::get_effective_cpu_isa() ==
                                                 dnnl::cpu_isa::avx512_core_amx;
  return tiles ? (head_dim + kTileDepth - 1) / kTileDepth * kTileDepth
               : head_dim;
}

/// Copies heads out of a wide matrix: [B, N, W] → [B, heads, N, depth], filled
/// up with zeros. The library's fast products want dense operands, and a copy
/// of N · head_dim elements is small beside N² · head_dim multiplications.
Tensor gather_heads(ExecContext& ctx, const HeadsView& view,
                    std::int64_t num_heads, std::int64_t head_dim,
                    std::int64_t depth) {
  const std::int64_t rows = view.base.dim(1);
  const std::int64_t width = view.base.dim(2);
  const DType dtype = view.base.dtype();
  Tensor heads =
      ctx.workspace().take({view.base.dim(0), num_heads, rows, depth}, dtype);
  const Source from(view.base);
  const Target to(heads);
  const auto copied = static_cast<std::size_t>(head_dim) * size_of(dtype);
  const auto padding =
      static_cast<std::size_t>(depth - head_dim) * size_of(dtype);
  const std::int64_t pieces = (rows + kGatherRows - 1) / kGatherRows;
  ctx.pool().run(
      view.base.dim(0) * pieces, [&](std::int64_t piece, int /*thread*/) {
        const std::int64_t item = piece / pieces;
        const std::int64_t begin = piece % pieces * kGatherRows;
        const std::int64_t end = std::min(rows, begin + kGatherRows);
        // Rows outside, heads inside: the wide matrix is read as it lies.
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t first = (item * rows + row) * width + view.column;
          for (std::int64_t head = 0; head < num_heads; ++head) {
            auto* target = static_cast<std::byte*>(
                to.at(((item * num_heads + head) * rows + row) * depth).data);
            std::memcpy(target, from.at(first + head * head_dim).data, copied);
            std::memset(target + copied, 0, padding);
          }
        }
      });
  return heads;
}

/// Both products of a block of query rows, and where their results lie in a
/// thread's scratch.
struct BlockPlan {
  std::int64_t rows;
  Matmul* logits;
  Matmul* mix;
  std::size_t probabilities_at;
  std::size_t row_at;
  std::size_t out_at;
  std::size_t library_at;
  std::size_t scratch_bytes;

  BlockPlan(ExecContext& ctx, std::int64_t block_rows, std::int64_t keys,
            std::int64_t head_dim, DType dtype)
      : rows(block_rows),
        logits(&MatmulCache::of(ctx).get({.m = block_rows,
                                          .n = keys,
                                          .k = padded_depth(head_dim, dtype),
                                          .dtype = dtype,
                                          .layout = Layout::transposed})),
        mix(&MatmulCache::of(ctx).get({.m = block_rows,
                                       .n = head_dim,
                                       .k = keys,
                                       .dtype = dtype,
                                       .layout = Layout::rows})) {
    const auto cells = static_cast<std::size_t>(block_rows * keys);
    const bool in_place = dtype == DType::f32;
    probabilities_at = in_place ? 0 : rounded_up(cells * sizeof(float));
    row_at = probabilities_at + rounded_up(cells * size_of(dtype));
    out_at =
        row_at + rounded_up(static_cast<std::size_t>(keys) * sizeof(float));
    library_at =
        out_at + rounded_up(static_cast<std::size_t>(block_rows * head_dim) *
                            sizeof(float));
    scratch_bytes =
        library_at + std::max(logits->scratch_bytes(), mix->scratch_bytes());
  }
};

struct Head {
  const void* q;
  const void* k;
  const void* v;
  std::int64_t keys;
  std::int64_t head_dim;
  DType dtype;
};

void attend(const BlockPlan& plan, const Head& head, int thread,
            std::byte* scratch, Target out, std::int64_t out_stride) {
  auto* logits = reinterpret_cast<float*>(scratch);
  const Target probabilities(scratch + plan.probabilities_at, head.dtype);
  auto* row = reinterpret_cast<float*>(scratch + plan.row_at);
  auto* mixed = reinterpret_cast<float*>(scratch + plan.out_at);
  std::byte* library = scratch + plan.library_at;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head.head_dim));

  plan.logits->run(thread, head.q, head.k, logits, library);
  softmax_rows(logits, plan.rows, head.keys, scale, row, probabilities);
  plan.mix->run(thread, probabilities.data, head.v, mixed, library);
  finish_product(mixed, plan.rows, head.head_dim, {}, out, out_stride);
}

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out) {
  const std::int64_t items = q.base.dim(0);
  const std::int64_t queries = q.base.dim(1);
  const std::int64_t keys = k.base.dim(1);
  const DType dtype = q.base.dtype();
  if (out.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const std::int64_t depth = padded_depth(head_dim, dtype);
  const Tensor q_heads = gather_heads(ctx, q, num_heads, head_dim, depth);
  const Tensor k_heads = gather_heads(ctx, k, num_heads, head_dim, depth);
  const Tensor v_heads = gather_heads(ctx, v, num_heads, head_dim, head_dim);

  const std::int64_t most =
      std::clamp(kBlockLogits / keys, kMinBlockRows, kMaxBlockRows);
  const std::int64_t num_blocks = (queries + most - 1) / most;
  const std::int64_t block_rows = (queries + num_blocks - 1) / num_blocks;
  const BlockPlan body(ctx, block_rows, keys, head_dim, dtype);
  const BlockPlan last(ctx, queries - (num_blocks - 1) * block_rows, keys,
                       head_dim, dtype);
  const std::size_t scratch_bytes =
      std::max(body.scratch_bytes, last.scratch_bytes);
  const std::int64_t width = num_heads * head_dim;

  ctx.pool().run(items * num_heads * num_blocks, [&](std::int64_t piece,
                                                     int thread) {
    const std::int64_t block = piece % num_blocks;
    const std::int64_t head = piece / num_blocks;  // of all items
    const std::int64_t row = block * block_rows;
    const Head operands{
        .q = Source(q_heads).at((head * queries + row) * depth).data,
        .k = Source(k_heads).at(head * keys * depth).data,
        .v = Source(v_heads).at(head * keys * head_dim).data,
        .keys = keys,
        .head_dim = head_dim,
        .dtype = dtype};
    const std::int64_t first = (head / num_heads * queries + row) * width +
                               head % num_heads * head_dim;
    attend(block + 1 == num_blocks ? last : body, operands, thread,
           ctx.scratch(thread, scratch_bytes), Target(out).at(first), width);
  });
}

}  // namespace troupe::kernels::cpu
