#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/row_plan.cuh"

namespace troupe::kernels::cuda {
namespace {

/// out[i] = activation(x[i]). A thread has kUnits units whose loads are in
/// flight together; neighbouring threads have neighbouring units.
template <typename From, typename To>
struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnit = kTogether<From, To>;
  static constexpr int kUnits = 4;
  static constexpr int kPerBlock = kThreads * kUnit * kUnits;
  /// What is rounded to 16 bits needs no more.
  static constexpr bool kCoarse = sizeof(To) == 2;

  const From* x;
  To* out;
  std::int64_t count;
  Activation activation;
  bool aligned;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t begin = lane.block() * kPerBlock;
    if (aligned && begin + kPerBlock <= count) {
      const std::int64_t at = begin + lane.thread() * kUnit;
      Unit<From, kUnit> units[kUnits];
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        units[i] = load<kUnit>(x + at + i * kThreads * kUnit);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        Floats<kUnit> values = floats(units[i]);
        activate_all<kCoarse>(values.values, activation);
        store_whole<kUnit>(rounded<To>(values),
                           out + at + i * kThreads * kUnit);
      }
      return;
    }
    const std::int64_t end =
        begin + kPerBlock < count ? begin + kPerBlock : count;
    std::int64_t rest = begin;
    if (aligned) {
      rest += (end - begin) / kUnit * kUnit;
      for (std::int64_t at = begin + lane.thread() * kUnit; at < rest;
           at += kThreads * kUnit) {
        Floats<kUnit> values = floats(load<kUnit>(x + at));
        activate_all<kCoarse>(values.values, activation);
        store_whole<kUnit>(rounded<To>(values), out + at);
      }
    }
    for (std::int64_t i = rest + lane.thread(); i < end; i += kThreads) {
      float value[1] = {to_float(x[i])};
      activate_all<kCoarse>(value, activation);
      out[i] = from_float<To>(value[0]);
    }
  }
};

/// out = e^(x − largest) / Σ e^(x − largest) for one row of a team.
template <RowAccess access>
struct Softmax {
  static constexpr const char* kName = "softmax";
  static constexpr int kThreads = kRowThreads;
  static constexpr bool kCooperates = true;
  static constexpr int kUnit = 4;
  static constexpr std::size_t kSharedBytes = 2 * kMaxWarps * sizeof(float);
  using Share = RowShare<kUnit, access>;

  RowPlan plan;
  const float* x;
  float* out;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const Share share(plan, lane);
    auto* shared = lane.template shared<float>();
    const float* from = x + std::int64_t{share.row} * plan.width;
    float* to = out + std::int64_t{share.row} * plan.width;
    Unit<float, kUnit> units[Share::kKept];
    if constexpr (Share::kHeld) {
      share.each([&](int slot, int first, int count) {
        units[slot] = load_row<access, kUnit>(from + first, count);
      });
    }
    float largest = -INFINITY;
    share.each([&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        units[0] = load_row<access, kUnit>(from + first, count);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        if (i < count) {
          largest = at_least(largest, units[slot].values[i]);
        }
      }
    });
    largest = join_row(lane, plan.threads, largest, shared,
                       [](float a, float b) { return at_least(a, b); });
    float sum = 0;
    share.each([&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        units[0] = load_row<access, kUnit>(from + first, count);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnit; ++i) {
        units[slot].values[i] =
            i < count ? exponential(add(units[slot].values[i], -largest))
                      : 0.0F;
      }
      sum = add(sum, sum_of(units[slot].values));
      if constexpr (!Share::kHeld) {
        // Each thread reads only its own values back.
        store_row<access>(units[0], to + first, count);
      }
    });
    sum = sum_row(lane, plan.threads, sum, shared + kMaxWarps);
    const float inverse = quotient(1.0F, sum);
    share.each([&](int slot, int first, int count) {
      if constexpr (!Share::kHeld) {
        units[0] = load_row<access, kUnit>(
            static_cast<const float*>(to) + first, count);
      }
      TROUPE_UNROLL
      for (float& value : units[slot].values) {
        value = multiply(value, inverse);
      }
      store_row<access>(units[slot], to + first, count);
    });
  }
};

}  // namespace

void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) {
  Backend& backend = Backend::of(ctx);
  with_element(x.dtype(), [&]<typename From>(From) {
    with_element(out.dtype(), [&]<typename To>(To) {
      using Kernel = Activate<From, To>;
      const auto* from = x.data<From>();
      auto* to = out.data<To>();
      const Kernel kernel{
          from, to, x.num_elements(), activation,
          is_aligned<Kernel::kUnit>(from) && is_aligned<Kernel::kUnit>(to)};
      launch(backend, kernel, {blocks_for(kernel.count, Kernel::kPerBlock)});
    });
  });
}

void softmax(ExecContext& ctx, const Tensor& x, Tensor& out) {
  if (x.empty()) {
    return;
  }
  Backend& backend = Backend::of(ctx);
  const std::int64_t width = x.dim(x.shape().rank() - 1);
  const RowPlan plan = plan_rows(x.num_elements() / width, width, 4);
  const auto* from = x.data<float>();
  auto* to = out.data<float>();
  with_access(plan, fits<4>(from, width) && fits<4>(to, width),
              [&](auto access) {
                using Kernel = Softmax<access.value>;
                launch(backend, Kernel{plan, from, to}, {plan.blocks()},
                       plan.block_threads(), Kernel::kSharedBytes);
              });
}

}  // namespace troupe::kernels::cuda
