#include <array>
#include <cmath>
#include <map>

#include "kernels/cuda/attention_products.cuh"
#include "kernels/cuda/dnn_batch.cuh"
#include "kernels/cuda/dnn_problems.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

// cuDNN's flash attention reads rows of a head 16 bytes at a time.
constexpr std::int64_t kPerRead = 8;
constexpr std::uintptr_t kReadBytes = 16;

/// The plans of one context.
struct FlashPlans {
  explicit FlashPlans(Backend& /*backend*/) {}
  std::map<AttentionProblem, DnnPlans> plans;
};

std::byte* first_element(const HeadsView& view) {
  // Nothing is written through an input.
  auto* base = const_cast<std::byte*>(view.base.bytes().data());
  return base +
         static_cast<std::size_t>(view.column) * size_of(view.base.dtype());
}

bool flash_can_read(const HeadsView& view) {
  return view.base.dim(2) % kPerRead == 0 &&
         reinterpret_cast<std::uintptr_t>(first_element(view)) % kReadBytes ==
             0;
}

DnnOperand input(DnnId id, const HeadsView& view) {
  return {.id = id,
          .role = DnnOperand::Role::input,
          .dtype = view.base.dtype(),
          .elements = view.base.dim(1) * view.base.dim(2),
          .address = first_element(view)};
}

/// False when the library has no engine for it; nothing is queued then.
bool try_flash(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out) {
  if (q.base.dtype() == DType::f32 || head_dim % kPerRead != 0 ||
      !flash_can_read(q) || !flash_can_read(k) || !flash_can_read(v) ||
      reinterpret_cast<std::uintptr_t>(out.bytes().data()) % kReadBytes != 0) {
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
  auto& known = backend.state<FlashPlans>().plans;
  auto plans = known.find(problem);
  if (plans == known.end()) {
    const auto graph_of = [handle = backend.shared_state<DnnHandle>(),
                           problem](std::int64_t items) {
      return attention_graph(handle->target(), problem, items);
    };
    plans = known.try_emplace(problem, graph_of, DnnRules{}).first;
  }
  float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  const std::array operands{
      input(kFirstInput, q), input(kSecondInput, k), input(kThirdInput, v),
      DnnOperand{.id = kScale,
                 .role = DnnOperand::Role::number,
                 .elements = 1,
                 .address = reinterpret_cast<std::byte*>(&scale)},
      DnnOperand{.id = kOutput,
                 .role = DnnOperand::Role::output,
                 .dtype = out.dtype(),
                 .elements = out.dim(1) * out.dim(2),
                 .address = out.bytes().data()}};
  return plans->second.run(ctx, q.base.dim(0), operands);
}

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out) {
  (void)Backend::of(ctx);
  if (out.empty() || try_flash(ctx, q, k, v, num_heads, head_dim, out)) {
    return;
  }
  attend_by_products(ctx, q, k, v, num_heads, head_dim, out);
}

}  // namespace troupe::kernels::cuda
