#include <map>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/aligned.cuh"
#include "kernels/cuda/attention_products.cuh"
#include "kernels/cuda/attention_shard.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

// cuDNN's flash attention reads rows of a head 16 bytes at a time.
constexpr std::int64_t kPerRead = 8;
constexpr std::uintptr_t kReadBytes = 16;

/// Whether the whole is another problem: other rows, heads or row widths.
bool is_shard(const HeadsView& q, const HeadsView& k, const HeadsView& v,
              std::int64_t num_heads, const WholeItem& whole) {
  const auto has_other_width = [](const HeadsView& view, std::int64_t width) {
    return width != 0 && view.base.dim(2) != width;
  };
  return whole.rows != q.base.dim(1) || whole.num_heads != num_heads ||
         has_other_width(q, whole.row_width) ||
         has_other_width(k, whole.key_width) ||
         has_other_width(v, whole.key_width);
}

/// The plans of one context.
struct FlashPlans {
  explicit FlashPlans(Backend& /*backend*/) {}

  [[nodiscard]] DnnPlans& of(Backend& backend,
                             const AttentionProblem& problem) {
    const auto known = wholes.find(problem);
    if (known != wholes.end()) {
      return known->second;
    }
    return wholes.try_emplace(problem, graph_of(backend, problem), DnnRules{})
        .first->second;
  }

  static DnnPlans::GraphOf graph_of(Backend& backend,
                                    const AttentionProblem& problem) {
    return [handle = backend.shared_state<DnnHandle>(),
            problem](std::int64_t items) {
      return attention_graph(handle->target(), problem, items);
    };
  }

  struct Shard {
    Shard(DnnPlans::GraphOf graph_of, const DnnRules& rules)
        : plans(std::move(graph_of), rules) {}
    DnnPlans plans;
    std::optional<bool> agrees;  ///< has the bytes of the whole; unset: unknown
  };

  std::map<AttentionProblem, DnnPlans> wholes;
  /// By the whole and the shard.
  std::map<std::pair<AttentionProblem, AttentionProblem>, Shard> shards;
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
  auto& known = backend.state<FlashPlans>();
  DnnPlans& whole_plans = known.of(backend, whole);
  if (whole_plans.engine() == nullptr) {
    return nullptr;
  }
  FlashPlans::Shard& it =
      known.shards
          .try_emplace(std::pair(whole, shard),
                       FlashPlans::graph_of(backend, shard),
                       DnnRules{.only = whole_plans.engine()})
          .first->second;
  if (!it.agrees) {
    if (backend.is_recording()) {
      throw Error(Errc::unsupported, "attention",
                  "a shard was recorded before it was run once");
    }
    it.agrees = shard_agrees(ctx, whole, whole_plans, shard, it.plans);
  }
  // The plans of a refused shard are kept: unloading them needs a lock.
  if (!*it.agrees) {
    throw Error(Errc::unsupported, "attention",
                "cuDNN computes other bits for " +
                    std::to_string(shard.queries) + " rows and " +
                    std::to_string(shard.num_heads) + " heads alone than for " +
                    std::to_string(whole.queries) + " and " +
                    std::to_string(whole.num_heads),
                "give each GPU whole items");
  }
  return &it.plans;
}

/// False when the library has no engine for it; nothing is queued then.
bool try_flash(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const WholeItem& whole,
               const AttentionMask& mask, Tensor& out) {
  if (mask.causal || !mask.bias.empty() || q.base.dtype() == DType::f32 ||
      head_dim % kPerRead != 0 || !flash_can_read(q) || !flash_can_read(k) ||
      !flash_can_read(v)) {
    return false;
  }
  const AttentionProblem problem{.queries = q.base.dim(1),
                                 .keys = k.base.dim(1),
                                 .num_heads = num_heads,
                                 .head_dim = head_dim,
                                 .q_row = q.base.dim(2),
                                 .k_row = k.base.dim(2),
                                 .v_row = v.base.dim(2),
                                 .dtype = q.base.dtype()};
  Backend& backend = Backend::of(ctx);
  DnnPlans* plans = nullptr;
  if (is_shard(q, k, v, num_heads, whole) &&
      backend.options().batch_invariant) {
    if (whole.row_width == 0 || whole.row_width % kPerRead != 0 ||
        whole.key_width % kPerRead != 0) {
      return false;
    }
    AttentionProblem item = problem;
    item.queries = whole.rows;
    item.num_heads = whole.num_heads;
    item.q_row = whole.row_width;
    item.k_row = item.v_row = whole.key_width;
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
  AlignedOutput output(ctx, out, kReadBytes);
  float scale = scale_of(mask, head_dim);
  if (!plans->run(ctx, q.base.dim(0),
                  attention_operands(
                      problem, {first_element(q_here), first_element(k_here),
                                first_element(v_here), &scale,
                                output.tensor().bytes().data()}))) {
    return false;
  }
  output.finish();
  return true;
}

/// Attention over all keys that k has: `mask` has no lengths.
void attend(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
            const HeadsView& v, std::int64_t num_heads, std::int64_t head_dim,
            const WholeItem& whole, const AttentionMask& mask, Tensor& out) {
  if (try_flash(ctx, q, k, v, num_heads, head_dim, whole, mask, out)) {
    return;
  }
  if (is_shard(q, k, v, num_heads, whole) &&
      Backend::of(ctx).options().batch_invariant) {
    throw Error(Errc::unsupported, "attention",
                "a shard has the bits of the whole only with flash attention, "
                "without a bias: got " +
                    std::string(to_string(out.dtype())) + " heads of " +
                    std::to_string(head_dim) + " columns in rows of " +
                    std::to_string(whole.row_width),
                "use --dtype bf16, or give each GPU whole items");
  }
  attend_by_products(ctx, q, k, v, num_heads, head_dim, mask, out);
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
               const AttentionMask& mask, Tensor& out) {
  if (out.empty()) {
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
    Tensor part = out.slice(item, end);
    attend(ctx, items_of(q, item, end),
           whole_keys ? items_of(k, item, end)
                      : first_tokens(k, item, length(item)),
           whole_keys ? items_of(v, item, end)
                      : first_tokens(v, item, length(item)),
           num_heads, head_dim, whole, rest, part);
  }
}

}  // namespace troupe::kernels::cuda
