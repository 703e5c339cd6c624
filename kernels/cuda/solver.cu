#include <cmath>

#include "kernels/core/polynomials.h"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/ops.h"

// The arithmetic of solver steps and guidance. Each product and sum is rounded
// separately, as on the CPU, so the bits are those of the CPU.

namespace troupe::kernels::cuda {
namespace {

struct Combine {
  static constexpr const char* kName = "combine";
  static constexpr int kMaxTerms = 8;
  static constexpr int kWide = 4;
  static constexpr int kUnits = 1;  // the terms' loads are in flight together

  const float* terms[kMaxTerms];
  float coefficients[kMaxTerms];
  int num_terms;
  float* out;

  template <int N>
  struct Inputs {
    Unit<float, N> terms[kMaxTerms];
  };
  [[nodiscard]] bool is_aligned() const {
    bool aligned = cuda::is_aligned<kWide>(out);
    for (int t = 0; t < num_terms; ++t) {
      aligned = aligned && cuda::is_aligned<kWide>(terms[t]);
    }
    return aligned;
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    Inputs<N> inputs;
    TROUPE_UNROLL
    for (int t = 0; t < kMaxTerms; ++t) {
      if (t < num_terms) {
        inputs.terms[t] = cuda::load<N>(terms[t] + at);
      }
    }
    return inputs;
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<float, N> sum;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      sum.values[i] = multiply(coefficients[0], inputs.terms[0].values[i]);
    }
    TROUPE_UNROLL
    for (int t = 1; t < kMaxTerms; ++t) {
      if (t < num_terms) {
        TROUPE_UNROLL
        for (int i = 0; i < N; ++i) {
          sum.values[i] =
              add(sum.values[i],
                  multiply(coefficients[t], inputs.terms[t].values[i]));
        }
      }
    }
    cuda::store<N>(sum, out + at);
  }
};

struct Clamp {
  static constexpr const char* kName = "clamp";
  static constexpr int kWide = 4;
  static constexpr int kUnits = 4;

  float low;
  float high;
  float* x;

  template <int N>
  struct Inputs {
    Unit<float, N> x;
  };
  [[nodiscard]] bool is_aligned() const { return cuda::is_aligned<kWide>(x); }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(static_cast<const float*>(x) + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<float, N> result;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      // NaN compares false with both.
      const float value = inputs.x.values[i];
      const float raised = value < low ? low : value;
      result.values[i] = raised > high ? high : raised;
    }
    cuda::store<N>(result, x + at);
  }
};

/// u + s·(c − u) for the first num_guided elements, c for the rest.
struct Guide {
  static constexpr const char* kName = "guide";
  static constexpr int kWide = 4;
  static constexpr int kUnits = 2;

  const float* cond;
  const float* uncond;
  float scale;
  std::int64_t num_guided;
  float* out;

  template <int N>
  struct Inputs {
    Unit<float, N> cond;
    Unit<float, N> uncond;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(cond) && cuda::is_aligned<kWide>(uncond) &&
           cuda::is_aligned<kWide>(out);
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(cond + at), cuda::load<N>(uncond + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<float, N> result;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      const float c = inputs.cond.values[i];
      const float u = inputs.uncond.values[i];
      result.values[i] =
          at + i < num_guided ? add(u, multiply(scale, add(c, -u))) : c;
    }
    cuda::store<N>(result, out + at);
  }
};

/// share · x · (s / s_x) + (1 − share) · x. `sums`: Σ and Σ of squares of what
/// x shall be like, then of x.
struct RescaleDeviation {
  static constexpr const char* kName = "rescale_deviation";
  static constexpr int kWide = 4;
  static constexpr int kUnits = 2;

  const double* sums;
  double count;
  float share;
  float rest;
  float* x;

  template <int N>
  struct Inputs {
    Unit<float, N> x;
  };
  [[nodiscard]] bool is_aligned() const { return cuda::is_aligned<kWide>(x); }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(static_cast<const float*>(x) + at)};
  }
  [[nodiscard]] TROUPE_DEVICE float deviation(int at) const {
    const double squares = sums[at + 1] - sums[at] / count * sums[at];
    return static_cast<float>(
        sqrt((squares > 0.0 ? squares : 0.0) / (count - 1)));
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    const float factor = deviation(0) / deviation(2);
    Unit<float, N> result;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      const float value = inputs.x.values[i];
      result.values[i] =
          add(multiply(share, multiply(value, factor)), multiply(rest, value));
    }
    cuda::store<N>(result, x + at);
  }
};

#if defined(__CUDACC__)
/// Products and sums that nvcc joins nowhere. The host's half of a template
/// must compile, too; it never runs.
struct RoundEach {
  static __host__ __device__ float multiply(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
  }
  static __host__ __device__ float add(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
  }
};
#else
using detail::RoundEach;
#endif

/// noise · σ, with σ² from the model: itself, or its place between two bounds'
/// logarithms.
struct ScaleByVariance {
  static constexpr const char* kName = "scale_by_learned_variance";
  static constexpr int kWide = 4;
  static constexpr int kUnits = 2;

  const float* variance;
  bool is_range;
  float low;
  float high;
  float* noise;

  template <int N>
  struct Inputs {
    Unit<float, N> variance;
    Unit<float, N> noise;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(variance) && cuda::is_aligned<kWide>(noise);
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(variance + at),
            cuda::load<N>(static_cast<const float*>(noise) + at)};
  }
  TROUPE_DEVICE float deviation(float v) const {
    if (!is_range) {
      return sqrtf(v);
    }
    const float part = multiply(add(v, 1.0F), 0.5F);
    return detail::exp_float<RoundEach>(multiply(
        0.5F, add(multiply(part, high), multiply(add(1.0F, -part), low))));
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    Unit<float, N> result;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) {
      result.values[i] = multiply(inputs.noise.values[i],
                                  deviation(inputs.variance.values[i]));
    }
    cuda::store<N>(result, noise + at);
  }
};

}  // namespace

void combine(ExecContext& ctx, std::span<const Term> terms, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  require(!terms.empty() && terms.size() <= Combine::kMaxTerms, Errc::internal,
          "combine", "wrong number of terms");
  Combine op{};
  op.num_terms = static_cast<int>(terms.size());
  op.out = out.data<float>();
  for (std::size_t t = 0; t < terms.size(); ++t) {
    op.terms[t] = terms[t].tensor->data<float>();
    op.coefficients[t] = static_cast<float>(terms[t].coefficient);
  }
  launch_each(backend, op, out.num_elements());
}

void clamp(ExecContext& ctx, float low, float high, Tensor& x) {
  launch_each(Backend::of(ctx), Clamp{low, high, x.data<float>()},
              x.num_elements());
}

void guide(ExecContext& ctx, const Tensor& cond, const Tensor& uncond,
           float scale, std::int64_t num_guided, Tensor& out) {
  launch_each(Backend::of(ctx),
              Guide{cond.data<float>(), uncond.data<float>(), scale, num_guided,
                    out.data<float>()},
              out.num_elements());
}

void rescale_deviation(ExecContext& ctx, const Tensor& like, double share,
                       Tensor& x) {
  const Workspace::Scope scope(ctx.workspace());
  Tensor sums = ctx.workspace().take({4, sizeof(double)}, DType::u8);
  sum(ctx, like, sums, 0);
  sum_squares(ctx, like, sums, 1);
  sum(ctx, x, sums, 2);
  sum_squares(ctx, x, sums, 3);
  launch_each(
      Backend::of(ctx),
      RescaleDeviation{reinterpret_cast<const double*>(sums.bytes().data()),
                       static_cast<double>(x.num_elements()),
                       static_cast<float>(share),
                       static_cast<float>(1.0 - share), x.data<float>()},
      x.num_elements());
}

void scale_by_learned_variance(ExecContext& ctx, const Tensor& variance,
                               bool is_range, float low, float high,
                               Tensor& noise) {
  launch_each(Backend::of(ctx),
              ScaleByVariance{variance.data<float>(), is_range, low, high,
                              noise.data<float>()},
              noise.num_elements());
}

}  // namespace troupe::kernels::cuda
