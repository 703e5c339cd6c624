#include "kernels/core/error.h"
#include "kernels/cuda/aligned.cuh"
#include "kernels/cuda/attention_products.cuh"
#include "kernels/cuda/attention_shard.cuh"
#include "kernels/cuda/dnn_shards.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

// cuDNN's flash attention reads rows of a head 16 bytes at a time.
constexpr std::int64_t kPerRead = 8;
constexpr std::uintptr_t kReadBytes = 16;

/// Whether the whole is another problem: other rows, heads or row widths. The
/// whole's output has the width of its heads.
bool is_shard(const HeadsView& q, const HeadsView& k, const HeadsView& v,
              std::int64_t num_heads, std::int64_t head_dim,
              const WholeItem& whole, const HeadsView& out) {
  const auto has_other_width = [](const HeadsView& view, std::int64_t width) {
    return width != 0 && view.base.dim(2) != width;
  };
  return whole.rows != q.base.dim(1) || whole.num_heads != num_heads ||
         has_other_width(q, whole.row_width) ||
         has_other_width(k, whole.key_width) ||
         has_other_width(v, whole.key_width) ||
         out.base.dim(2) != num_heads * head_dim;
}

/// The plans of one context.
struct FlashPlans : DnnShards<AttentionProblem> {
  explicit FlashPlans(Backend& /*backend*/) : DnnShards(attention_graph) {}
};

std::byte* first_element(const HeadsView& view) {
  // Nothing is written through an input.
  auto* base = const_cast<std::byte*>(view.base.bytes().data());
  return base +
         static_cast<std::size_t>(view.column) * size_of(view.base.dtype());
}

/// It follows from shapes alone, never from an address.
bool flash_can_read(const HeadsView& view) {
  return view.base.dim(2) % kPerRead == 0 && view.column % kPerRead == 0;
}

/// The plans of the shard, or null where the library has none of the whole.
/// Errors: Errc::unsupported when the shard's bits are others.
DnnPlans* plans_of_shard(ExecContext& ctx, const AttentionProblem& whole,
                         const AttentionProblem& shard) {
  Backend& backend = Backend::of(ctx);
  FlashPlans::Shard* const found = backend.state<FlashPlans>().shard_of(
      backend, whole, shard, {}, "attention",
      [&](DnnPlans& whole_plans, DnnPlans& shard_plans) {
        return shard_agrees(ctx, whole, whole_plans, shard, shard_plans);
      });
  if (found == nullptr) {
    return nullptr;
  }
  if (!*found->agrees) {
    throw Error(Errc::unsupported, "attention",
                "cuDNN computes other bits for " +
                    std::to_string(shard.queries) + " rows and " +
                    std::to_string(shard.num_heads) + " heads alone than for " +
                    std::to_string(whole.queries) + " and " +
                    std::to_string(whole.num_heads),
                "give each GPU whole items");
  }
  return &found->plans;
}

/// False when the library has no engine for it; nothing is queued then.
bool try_flash(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const WholeItem& whole,
               const AttentionMask& mask, const HeadsView& out) {
  if (mask.causal || !mask.bias.empty() || q.base.dtype() == DType::f32 ||
      head_dim % kPerRead != 0) {
    return false;
  }
  Backend& backend = Backend::of(ctx);
  const bool is_part = is_shard(q, k, v, num_heads, head_dim, whole, out) &&
                       backend.options().batch_invariant;
  if (is_part && (whole.row_width == 0 || whole.row_width % kPerRead != 0 ||
                  whole.key_width % kPerRead != 0)) {
    return false;
  }
  if (!flash_can_read(q) || !flash_can_read(k) || !flash_can_read(v) ||
      !flash_can_read(out)) {
    require(!is_part, Errc::unsupported, "attention",
            "flash attention serves the whole and cannot read this shard: got "
            "rows of " +
                std::to_string(q.base.dim(2)) + " and " +
                std::to_string(k.base.dim(2)) + " columns",
            "give each GPU whole items");
    return false;
  }
  const AttentionProblem problem{.queries = q.base.dim(1),
                                 .keys = k.base.dim(1),
                                 .num_heads = num_heads,
                                 .head_dim = head_dim,
                                 .q_row = q.base.dim(2),
                                 .k_row = k.base.dim(2),
                                 .v_row = v.base.dim(2),
                                 .out_row = out.base.dim(2),
                                 .dtype = q.base.dtype()};
  DnnPlans* plans = nullptr;
  if (is_part) {
    AttentionProblem item = problem;
    item.queries = whole.rows;
    item.num_heads = whole.num_heads;
    item.q_row = whole.row_width;
    item.k_row = item.v_row = whole.key_width;
    item.out_row = whole.num_heads * head_dim;
    plans = plans_of_shard(ctx, item, problem);
  } else {
    plans = &backend.state<FlashPlans>().of(backend, problem);
  }
  if (plans == nullptr) {
    return false;
  }
  const Workspace::Scope scope(ctx.workspace());
  const auto readable = [&](const HeadsView& view) {
    return HeadsView{aligned_input(ctx, view.base, kReadBytes), view.column};
  };
  const HeadsView q_here = readable(q);
  const HeadsView k_here = readable(k);
  const HeadsView v_here = readable(v);
  Tensor base = out.base;
  AlignedOutput output(ctx, base, kReadBytes);
  float scale = scale_of(mask, head_dim);
  if (!plans->run(ctx, q.base.dim(0),
                  attention_operands(
                      problem, {first_element(q_here), first_element(k_here),
                                first_element(v_here), &scale,
                                first_element(HeadsView{output.tensor(),
                                                        out.column})}))) {
    return false;
  }
  output.finish();
  return true;
}

/// Attention over all keys that k has: `mask` has no lengths.
void attend(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
            const HeadsView& v, std::int64_t num_heads, std::int64_t head_dim,
            const WholeItem& whole, const AttentionMask& mask,
            const HeadsView& out) {
  const std::int64_t width = num_heads * head_dim;
  const bool is_wide = out.base.dim(2) != width;
  // A copy of wide rows would overwrite what stands beside these heads.
  const bool is_direct = !is_wide || is_aligned(out.base, kReadBytes);
  if (is_direct &&
      try_flash(ctx, q, k, v, num_heads, head_dim, whole, mask, out)) {
    return;
  }
  if (is_wide) {
    const Workspace::Scope scope(ctx.workspace());
    const std::int64_t rows = out.base.dim(0) * out.base.dim(1);
    const Tensor dense = ctx.workspace().take(
        {out.base.dim(0), out.base.dim(1), width}, out.base.dtype());
    attend(ctx, q, k, v, num_heads, head_dim, whole, mask, {dense, 0});
    Tensor wide = out.base.reshape({rows, out.base.dim(2)});
    return Backend::of(ctx).copy_columns(dense.reshape({rows, width}), 0, wide,
                                         out.column, width);
  }
  WholeItem item = whole;
  if (!Backend::of(ctx).options().batch_invariant) {
    item = {.rows = q.base.dim(1), .num_heads = num_heads};
  }
  require(item.num_heads == num_heads, Errc::unsupported, "attention",
          "without flash attention, some heads alone have other bits: got " +
              std::to_string(num_heads) + " of " +
              std::to_string(item.num_heads),
          "use --shard-plan gather");
  const bool has_all_rows = item.rows == q.base.dim(1);
  // The whole's column of a view that is copied must be known: 0.
  const auto is_known = [&](const HeadsView& view, std::int64_t row) {
    return row == view.base.dim(2) || row == width ||
           (row == 0 && has_all_rows);
  };
  require(is_known(q, item.row_width) && is_known(k, item.key_width) &&
              is_known(v, item.key_width) &&
              (has_all_rows || mask.bias.empty()),
          Errc::unsupported, "attention",
          "without flash attention, a shard has the bits of the whole only in "
          "rows as wide as the whole's, and without a bias: got rows of " +
              std::to_string(q.base.dim(2)) + " and " +
              std::to_string(k.base.dim(2)) + " columns, expected " +
              std::to_string(item.row_width) + " and " +
              std::to_string(item.key_width),
          "give each GPU whole items");
  Tensor dense = out.base;
  attend_by_products(ctx, q, k, v, num_heads, head_dim, item, mask, dense);
}

/// Items [begin, end).
HeadsView items_of(const HeadsView& view, std::int64_t begin,
                   std::int64_t end) {
  return {view.base.slice(begin, end), view.column};
}

/// The first `keys` tokens of item `item`.
HeadsView first_tokens(const HeadsView& view, std::int64_t item,
                       std::int64_t keys) {
  return {
      view.base.item(item).slice(0, keys).reshape({1, keys, view.base.dim(2)}),
      view.column};
}

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const WholeItem& whole,
               const AttentionMask& mask, const HeadsView& out) {
  if (out.base.empty()) {
    return;
  }
  AttentionMask rest = mask;
  rest.key_lengths = {};
  if (mask.key_lengths.empty()) {
    return attend(ctx, q, k, v, num_heads, head_dim, whole, rest, out);
  }
  // An item that is cut is a problem of its own, the same as its first keys
  // alone. Items without padding that lie side by side share their calls.
  const std::int64_t keys = k.base.dim(1);
  const auto length = [&](std::int64_t item) {
    return mask.key_lengths[static_cast<std::size_t>(item)];
  };
  std::int64_t end = 0;
  for (std::int64_t item = 0; item < q.base.dim(0); item = end) {
    end = item + 1;
    while (length(item) == keys && end < q.base.dim(0) && length(end) == keys) {
      ++end;
    }
    const bool whole_keys = length(item) == keys;
    attend(ctx, items_of(q, item, end),
           whole_keys ? items_of(k, item, end)
                      : first_tokens(k, item, length(item)),
           whole_keys ? items_of(v, item, end)
                      : first_tokens(v, item, length(item)),
           num_heads, head_dim, whole, rest, items_of(out, item, end));
  }
}

}  // namespace troupe::kernels::cuda
