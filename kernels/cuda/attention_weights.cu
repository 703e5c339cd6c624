#include "kernels/cuda/attention_products.cuh"
#include "kernels/cuda/numbers.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr int kWarpThreads = 32;
constexpr int kWeightRowThreads = 256;
constexpr int kRowWarps = kWeightRowThreads / kWarpThreads;

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

/// How a row's logits are read: unchanged, with all keys.
struct Plain {
  static constexpr bool kHides = false;

  struct Row {
    std::int64_t seen;
    TROUPE_DEVICE float logit(const float* row, std::int64_t i) const {
      return row[i];
    }
  };
  TROUPE_DEVICE Row row(std::int64_t /*index*/, std::int64_t keys) const {
    return {keys};
  }
};

/// With a bias, or without the keys behind the query.
struct Masked {
  static constexpr bool kHides = true;

  LogitsBlock block;

  struct Row {
    std::int64_t seen;
    const float* bias;  ///< null: none
    TROUPE_DEVICE float logit(const float* row, std::int64_t i) const {
      return bias == nullptr ? row[i] : add(row[i], bias[i]);
    }
  };
  TROUPE_DEVICE Row row(std::int64_t index, std::int64_t keys) const {
    const std::int64_t head = index / block.rows;
    const std::int64_t query = block.first_row + index - head * block.rows;
    const std::int64_t seen =
        block.causal && query + 1 < keys ? query + 1 : keys;
    return {seen, block.bias == nullptr
                      ? nullptr
                      : block.bias +
                            (head * block.bias_rows + query) * block.bias_row};
  }
};

/// A block per row: weights = exp(x − max) / Σ exp(x − max) over the keys that
/// the mask leaves, 0 for the others. A row with NaN becomes NaN.
template <typename To, typename Mask>
struct WeightsSoftmax {
  static constexpr const char* kName = "attention weights";
  static constexpr int kThreads = kWeightRowThreads;
  static constexpr bool kCooperates = true;

  const float* logits;
  To* weights;
  std::int64_t keys;
  Mask mask;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    auto* shared = lane.template shared<float>();
    const float* row = logits + lane.block() * keys;
    To* out = weights + lane.block() * keys;
    const auto masked = mask.row(lane.block(), keys);
    float most = masked.logit(row, 0);
    for (std::int64_t i = lane.thread(); i < masked.seen; i += kThreads) {
      const float x = masked.logit(row, i);
      most = x > most ? x : most;
    }
    most = joined(lane, most, shared,
                  [](float a, float b) { return b > a ? b : a; });
    float sum = 0;
    for (std::int64_t i = lane.thread(); i < masked.seen; i += kThreads) {
      sum = add(sum, exponential(masked.logit(row, i) - most));
    }
    sum = joined(lane, sum, shared, [](float a, float b) { return add(a, b); });
    for (std::int64_t i = lane.thread(); i < masked.seen; i += kThreads) {
      out[i] = from_float<To>(exponential(masked.logit(row, i) - most) / sum);
    }
    if constexpr (Mask::kHides) {
      for (std::int64_t i = masked.seen + lane.thread(); i < keys;
           i += kThreads) {
        out[i] = from_float<To>(0.0F);
      }
    }
  }
};

}  // namespace

void attention_weights(ExecContext& ctx, const Tensor& logits,
                       const LogitsBlock& block, Tensor& weights) {
  Backend& backend = Backend::of(ctx);
  with_element(weights.dtype(), [&]<typename To>(To) {
    const auto queue = [&](auto mask) {
      launch(backend,
             WeightsSoftmax<To, decltype(mask)>{
                 logits.data<float>(), weights.data<To>(), logits.dim(1), mask},
             {logits.dim(0)}, kWeightRowThreads, kRowWarps * sizeof(float));
    };
    if (block.causal || block.bias != nullptr) {
      queue(Masked{block});
    } else {
      queue(Plain{});
    }
  });
}

}  // namespace troupe::kernels::cuda
