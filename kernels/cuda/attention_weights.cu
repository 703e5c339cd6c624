#include "kernels/cuda/attention_products.cuh"
#include "kernels/cuda/numbers.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kRowThreads = 256;
constexpr int kRowWarps = kRowThreads / kWarpThreads;

TROUPE_DEVICE float exponential(float x) {
#if defined(__CUDA_ARCH__)
  return expf(x);
#else
  return std::exp(x);
#endif
}

/// One value of all threads of the block, in an order that is always the same.
/// `shared` has a place per warp; all threads call it.
template <typename Lane, typename Join>
TROUPE_DEVICE float joined(Lane& lane, float value, float* shared, Join join) {
  for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
    value = join(value, lane.shuffle_xor(value, mask));
  }
  if (lane.thread() % kWarpThreads == 0) {
    shared[lane.thread() / kWarpThreads] = value;
  }
  lane.sync();
  value = shared[0];
  for (int warp = 1; warp < kRowWarps; ++warp) {
    value = join(value, shared[warp]);
  }
  lane.sync();  // before the places are used again
  return value;
}

/// A block per row: weights = exp(x − max) / Σ exp(x − max). A row with NaN
/// becomes NaN.
template <typename To>
struct Softmax {
  static constexpr const char* kName = "attention weights";
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kCooperates = true;

  const float* logits;
  To* weights;
  std::int64_t keys;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    auto* shared = lane.template shared<float>();
    const float* row = logits + lane.block() * keys;
    To* out = weights + lane.block() * keys;
    float most = row[0];
    for (std::int64_t i = lane.thread(); i < keys; i += kThreads) {
      most = row[i] > most ? row[i] : most;
    }
    most = joined(lane, most, shared,
                  [](float a, float b) { return b > a ? b : a; });
    float sum = 0;
    for (std::int64_t i = lane.thread(); i < keys; i += kThreads) {
      sum = add(sum, exponential(row[i] - most));
    }
    sum = joined(lane, sum, shared, [](float a, float b) { return add(a, b); });
    for (std::int64_t i = lane.thread(); i < keys; i += kThreads) {
      out[i] = from_float<To>(exponential(row[i] - most) / sum);
    }
  }
};

}  // namespace

void attention_weights(ExecContext& ctx, const Tensor& logits,
                       Tensor& weights) {
  Backend& backend = Backend::of(ctx);
  with_element(weights.dtype(), [&](auto to) {
    using To = decltype(to);
    launch(backend,
           Softmax<To>{logits.data<float>(), weights.data<To>(), logits.dim(1)},
           {logits.dim(0)}, kRowThreads, kRowWarps * sizeof(float));
  });
}

}  // namespace troupe::kernels::cuda
