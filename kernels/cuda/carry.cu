#include "kernels/cuda/block_sum.cuh"
#include "kernels/cuda/each.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

/// The arithmetic of add_carry on N elements.
struct Carry {
  const float* step;
  float carry;
  const float* x_new;
  const float* x_old;
  float* out;

  template <int N>
  struct Inputs {
    Unit<float, N> step;
    Unit<float, N> x_new;
    Unit<float, N> x_old;
  };
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {cuda::load<N>(step + at), cuda::load<N>(x_new + at),
            cuda::load<N>(x_old + at)};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, bool are_same,
                           std::int64_t at) const {
    Unit<float, N> result = inputs.step;
    if (!are_same) {
      TROUPE_UNROLL
      for (int i = 0; i < N; ++i) {
        const float moved =
            add(inputs.x_new.values[i], -inputs.x_old.values[i]);
        result.values[i] = add(inputs.step.values[i], multiply(carry, moved));
      }
    }
    cuda::store<N>(result, out + at);
  }
};

/// For Each: a launch before it has left the decision in `*same`.
struct DecidedCarry {
  static constexpr const char* kName = "add_carry";
  static constexpr int kWide = 4;
  static constexpr int kUnits = 2;

  Carry carry;
  const double* same;  ///< 1 or 0

  template <int N>
  struct Inputs {
    Carry::Inputs<N> values;
    bool are_same;
  };
  [[nodiscard]] bool is_aligned() const {
    return cuda::is_aligned<kWide>(carry.step) &&
           cuda::is_aligned<kWide>(carry.x_new) &&
           cuda::is_aligned<kWide>(carry.x_old) &&
           cuda::is_aligned<kWide>(carry.out);
  }
  template <int N>
  TROUPE_DEVICE Inputs<N> load(std::int64_t at) const {
    return {carry.load<N>(at), *same != 0};
  }
  template <int N>
  TROUPE_DEVICE void store(const Inputs<N>& inputs, std::int64_t at) const {
    carry.store<N>(inputs.values, inputs.are_same, at);
  }
};

/// Up to so many elements (latents of usual sizes) one block compares, decides
/// and adds alone.
constexpr std::int64_t kSmallElements = 16384;

template <int N>
struct SmallCarry {
  static constexpr const char* kName = "add_carry";
  static constexpr int kThreads = 512;
  static constexpr bool kCooperates = true;

  Carry carry;
  std::int64_t count;

  template <int M>
  TROUPE_DEVICE bool differ(std::int64_t at) const {
    const auto left =
        load<M>(reinterpret_cast<const std::uint32_t*>(carry.x_new) + at);
    const auto right =
        load<M>(reinterpret_cast<const std::uint32_t*>(carry.x_old) + at);
    std::uint32_t bits = 0;
    TROUPE_UNROLL
    for (int i = 0; i < M; ++i) {
      bits |= left.values[i] ^ right.values[i];
    }
    return bits != 0;
  }

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t units = count / N;
    const bool has_rest = lane.thread() < count % N;
    const std::int64_t rest = units * N + lane.thread();
    bool differs = has_rest && differ<1>(rest);
    for (std::int64_t unit = lane.thread(); unit < units; unit += kThreads) {
      // No short cut: the loads of several units are in flight together.
      const bool here = differ<N>(unit * N);
      differs = differs || here;
    }
    const bool are_same = block_sum(lane, differs ? 1.0 : 0.0) == 0;
    constexpr std::int64_t kAhead = 4;  // units whose loads are in flight
    for (std::int64_t first = lane.thread(); first < units;
         first += kAhead * kThreads) {
      Carry::Inputs<N> inputs[kAhead];
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kThreads < units) {
          inputs[i] = carry.load<N>((first + i * kThreads) * N);
        }
      }
      TROUPE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (first + i * kThreads < units) {
          carry.store<N>(inputs[i], are_same, (first + i * kThreads) * N);
        }
      }
    }
    if (has_rest) {
      carry.store<1>(carry.load<1>(rest), are_same, rest);
    }
  }
};

template <int N>
void launch_small(Backend& backend, const Carry& carry, std::int64_t count) {
  using Kernel = SmallCarry<N>;
  launch(backend, Kernel{carry, count}, {1}, Kernel::kThreads,
         block_sum_bytes(Kernel::kThreads));
}

}  // namespace

void add_carry(ExecContext& ctx, const Tensor& step, float carry,
               const Tensor& x_new, const Tensor& x_old, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  const std::int64_t count = out.num_elements();
  DecidedCarry decided{{step.data<float>(), carry, x_new.data<float>(),
                        x_old.data<float>(), out.data<float>()},
                       nullptr};
  if (count == 0) {
    return;
  }
  if (count <= kSmallElements) {
    if (decided.is_aligned()) {
      launch_small<DecidedCarry::kWide>(backend, decided.carry, count);
    } else {
      launch_small<1>(backend, decided.carry, count);
    }
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  Tensor same = ctx.workspace().take({1, 8}, DType::u8);
  bytes_equal(ctx, x_new, x_old, same, 0);
  decided.same = reinterpret_cast<const double*>(same.bytes().data());
  launch_each(backend, decided, count);
}

}  // namespace troupe::kernels::cuda
