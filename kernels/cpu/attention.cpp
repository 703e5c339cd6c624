#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/row_cut.h"
#include "kernels/cpu/rows.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels::cpu {
namespace {

// Logits of one block: at most this many, so that they stay in the cache and
// memory does not grow with the square of the tokens.
constexpr std::int64_t kBlockLogits = 131072;
constexpr std::int64_t kMaxBlockRows = 256;
constexpr std::int64_t kMinBlockRows = kRowBlock;
constexpr std::int64_t kPiecesPerThread = 4;
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

/// Copies rows of one head out of a wide matrix, filled up with zeros to
/// `depth` columns. The library's fast products want dense operands; copied by
/// the thread that multiplies, they are in its cache.
void gather_head(const HeadsView& view, std::int64_t item, std::int64_t column,
                 std::int64_t begin, std::int64_t count, std::int64_t head_dim,
                 std::int64_t depth, std::byte* to) {
  const std::size_t element = size_of(view.base.dtype());
  const auto copied = static_cast<std::size_t>(head_dim) * element;
  const auto padding = static_cast<std::size_t>(depth - head_dim) * element;
  const std::int64_t width = view.base.dim(2);
  const Source from = Source(view.base).at(
      (item * view.base.dim(1) + begin) * width + view.column + column);
  for (std::int64_t row = 0; row < count; ++row) {
    std::memcpy(to, from.at(row * width).data, copied);
    std::memset(to + copied, 0, padding);
    to += copied + padding;
  }
}

/// Hands out parts of a thread's scratch.
class ScratchLayout {
 public:
  std::size_t take(std::int64_t count, std::size_t element) {
    const std::size_t at = bytes_;
    bytes_ += rounded_up(static_cast<std::size_t>(count) * element);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// The two products of a block of query rows.
struct Products {
  std::int64_t keys;
  std::int64_t head_dim;
  DType dtype;
  std::int64_t depth;

  Products(std::int64_t num_keys, std::int64_t columns, DType type)
      : keys(num_keys),
        head_dim(columns),
        dtype(type),
        depth(padded_depth(columns, type)) {}

  [[nodiscard]] MatmulShape logits(std::int64_t rows) const {
    return {.m = rows,
            .n = keys,
            .k = depth,
            .dtype = dtype,
            .layout = Layout::transposed};
  }
  [[nodiscard]] MatmulShape mix(std::int64_t rows) const {
    return {.m = rows,
            .n = head_dim,
            .k = keys,
            .dtype = dtype,
            .layout = Layout::rows};
  }
};

/// Both products compiled, and where operands and results lie in a thread's
/// scratch.
struct Plan {
  std::int64_t rows;  // of a block; the last one may have fewer
  std::int64_t last_rows;
  std::int64_t depth;
  Matmul* logits;
  Matmul* last_logits;
  Matmul* mix;
  Matmul* last_mix;
  std::size_t q_at, k_at, v_at, logits_at, powers_at, sums_at, mixed_at;
  std::size_t product_at;
  std::size_t scratch_bytes;

  Plan(ExecContext& ctx, const RowCut& cut, const Products& products)
      : rows(cut.block_rows),
        last_rows(cut.last_rows()),
        depth(products.depth) {
    MatmulCache& cache = MatmulCache::of(ctx);
    logits = &cache.get(products.logits(rows));
    last_logits = &cache.get(products.logits(last_rows));
    mix = &cache.get(products.mix(rows));
    last_mix = &cache.get(products.mix(last_rows));
    const DType dtype = products.dtype;
    const std::int64_t keys = products.keys;
    const std::int64_t head_dim = products.head_dim;
    const std::size_t element = size_of(dtype);
    ScratchLayout layout;
    k_at = layout.take(keys * depth, element);
    v_at = layout.take(keys * head_dim, element);
    q_at = layout.take(rows * depth, element);
    logits_at = layout.take(rows * keys, sizeof(float));
    // f32 powers take the logits' place.
    powers_at =
        dtype == DType::f32 ? logits_at : layout.take(rows * keys, element);
    sums_at = layout.take(rows, sizeof(float));
    mixed_at = layout.take(rows * head_dim, sizeof(float));
    product_at = layout.bytes();
    scratch_bytes =
        product_at +
        std::max({logits->scratch_bytes(), mix->scratch_bytes(),
                  last_logits->scratch_bytes(), last_mix->scratch_bytes()});
  }
};

/// The items of a call that have as many keys that count.
struct Group {
  std::int64_t keys;
  RowCut cut;
  Plan plan;
};

constexpr std::int64_t block_rows_for(std::int64_t keys) {
  return std::clamp(kBlockLogits / keys, kMinBlockRows, kMaxBlockRows);
}

/// One call of `attention`.
class Job {
 public:
  Job(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
      const HeadsView& v, std::int64_t num_heads, std::int64_t head_dim,
      const AttentionMask& mask, Tensor& out)
      : ctx_(ctx),
        q_(q),
        k_(k),
        v_(v),
        num_heads_(num_heads),
        head_dim_(head_dim),
        scale_(mask.scale.value_or(1.0F /
                                   std::sqrt(static_cast<float>(head_dim)))),
        mask_(mask),
        out_(out) {
    const std::int64_t keys = k.base.dim(1);
    if (mask.key_lengths.empty()) {
      group_of_item_.assign(static_cast<std::size_t>(q.base.dim(0)),
                            add_group(keys));
      return;
    }
    MatmulCache::of(ctx).trim();
    for (const std::int64_t length : mask.key_lengths) {
      group_of_item_.push_back(add_group(length));
    }
  }

  void run() {
    std::int64_t most_blocks = 0;
    std::size_t scratch_bytes = 0;
    for (const Group& group : groups_) {
      most_blocks = std::max(most_blocks, group.cut.num_blocks);
      scratch_bytes = std::max(scratch_bytes, group.plan.scratch_bytes);
    }
    // A piece is some blocks of one head, so that k and v are copied once for
    // many blocks; with few heads they are cut finer, for all threads to help.
    const std::int64_t heads = q_.base.dim(0) * num_heads_;
    const std::int64_t wanted = kPiecesPerThread * ctx_.num_threads();
    const std::int64_t parts =
        std::min(most_blocks, (wanted + heads - 1) / heads);
    ctx_.pool().run(heads * parts, [&](std::int64_t piece, int thread) {
      run_piece(piece / parts / num_heads_, piece / parts % num_heads_,
                piece % parts, parts, thread,
                ctx_.scratch(thread, scratch_bytes));
    });
  }

 private:
  /// Index of the group for `keys`, which is made if there is none.
  std::size_t add_group(std::int64_t keys) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].keys == keys) {
        return i;
      }
    }
    const Products shapes(keys, head_dim_, q_.base.dtype());
    const RowCut cut = cut_rows(
        q_.base.dim(1), block_rows_for(keys), [&](std::int64_t height) {
          return rows_stand_alone(ctx_, shapes.logits(height)) &&
                 rows_stand_alone(ctx_, shapes.mix(height));
        });
    groups_.push_back({keys, cut, Plan(ctx_, cut, shapes)});
    return groups_.size() - 1;
  }

  /// Blocks of part `part` of `parts` of one head.
  void run_piece(std::int64_t item, std::int64_t head, std::int64_t part,
                 std::int64_t parts, int thread, std::byte* scratch) const {
    const Group& group =
        groups_[group_of_item_[static_cast<std::size_t>(item)]];
    const Plan& plan = group.plan;
    const RowCut& cut = group.cut;
    const std::int64_t begin = part * cut.num_blocks / parts;
    const std::int64_t end = (part + 1) * cut.num_blocks / parts;
    if (begin == end) {
      return;
    }
    const std::int64_t column = head * head_dim_;
    gather_head(k_, item, column, 0, group.keys, head_dim_, plan.depth,
                scratch + plan.k_at);
    gather_head(v_, item, column, 0, group.keys, head_dim_, head_dim_,
                scratch + plan.v_at);
    const std::int64_t queries = q_.base.dim(1);
    const std::int64_t width = num_heads_ * head_dim_;
    for (std::int64_t b = begin; b < end; ++b) {
      const bool last = b + 1 == cut.num_blocks;
      const std::int64_t row = b * cut.block_rows;
      gather_head(q_, item, column, row, last ? plan.last_rows : plan.rows,
                  head_dim_, plan.depth, scratch + plan.q_at);
      attend(group, last, mask_of(head, row), thread, scratch,
             Target(out_).at((item * queries + row) * width + column), width);
    }
  }

  [[nodiscard]] LogitsMask mask_of(std::int64_t head, std::int64_t row) const {
    LogitsMask block{.causal = mask_.causal, .first_row = row};
    if (!mask_.bias.empty()) {
      block.bias_stride = mask_.bias.dim(2);
      block.bias = mask_.bias.data<float>() +
                   (head * mask_.bias.dim(1) + row) * block.bias_stride;
    }
    return block;
  }

  /// out = softmax(masked scale · q · kᵀ) · v for one block; q, k and v are in
  /// scratch. The division by the row sums comes last, on head_dim instead of
  /// keys columns.
  void attend(const Group& group, bool last, const LogitsMask& mask, int thread,
              std::byte* scratch, Target out, std::int64_t out_stride) const {
    const Plan& plan = group.plan;
    const std::int64_t rows = last ? plan.last_rows : plan.rows;
    auto* logits = reinterpret_cast<float*>(scratch + plan.logits_at);
    const Target powers(scratch + plan.powers_at, out.dtype);
    auto* sums = reinterpret_cast<float*>(scratch + plan.sums_at);
    auto* mixed = reinterpret_cast<float*>(scratch + plan.mixed_at);
    std::byte* library = scratch + plan.product_at;

    (last ? plan.last_logits : plan.logits)
        ->run(thread, scratch + plan.q_at, scratch + plan.k_at, logits,
              library);
    if (mask.causal || mask.bias != nullptr) {
      exp_masked_rows(logits, rows, group.keys, scale_, mask, powers, sums);
    } else {
      exp_rows(logits, rows, group.keys, scale_, powers, sums);
    }
    (last ? plan.last_mix : plan.mix)
        ->run(thread, powers.data, scratch + plan.v_at, mixed, library);
    divide_rows(mixed, rows, head_dim_, sums, out, out_stride);
  }

  ExecContext& ctx_;
  const HeadsView& q_;
  const HeadsView& k_;
  const HeadsView& v_;
  std::int64_t num_heads_;
  std::int64_t head_dim_;
  float scale_;
  const AttentionMask& mask_;
  Tensor& out_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_item_;
};

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const AttentionMask& mask, Tensor& out) {
  if (out.empty()) {
    return;
  }
  Job(ctx, q, k, v, num_heads, head_dim, mask, out).run();
}

}  // namespace troupe::kernels::cpu
