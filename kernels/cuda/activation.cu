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

}  // namespace troupe::kernels::cuda
