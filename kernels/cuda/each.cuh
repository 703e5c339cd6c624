#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {

/// A loop over elements that do not depend on each other. An Op is plain values
/// with
///
///   static constexpr const char* kName;
///   static constexpr int kWide;    elements of a unit where memory is aligned;
///                                  a power of two
///   static constexpr int kUnits;   units that a thread loads before it stores
///                                  the first
///   template <int N> struct Inputs;
///   template <int N> TROUPE_DEVICE Inputs<N> load(std::int64_t at) const;
///   template <int N> TROUPE_DEVICE void store(const Inputs<N>& inputs,
///                                             std::int64_t at) const;
///   bool is_aligned() const;       whether its memory is aligned to kWide
///
/// where load and store are for the elements [at, at + N). All inputs of an
/// element are read before it is stored, so an output may be one of the inputs.
/// Neighbouring threads take neighbouring units.
template <typename Op, int N>
struct Each {
  static constexpr const char* kName = Op::kName;
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  static constexpr int kUnits = Op::kUnits;
  static constexpr std::int64_t kPerBlock = std::int64_t{kThreads} * kUnits;

  Op op;
  std::int64_t count;  ///< elements

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t units = count / N;
    const std::int64_t first = lane.block() * kPerBlock + lane.thread();
    typename Op::template Inputs<N> inputs[kUnits];
    if ((lane.block() + 1) * kPerBlock <= units) {
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        inputs[i] = op.template load<N>((first + i * kThreads) * N);
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        op.template store<N>(inputs[i], (first + i * kThreads) * N);
      }
    } else {
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        if (first + i * kThreads < units) {
          inputs[i] = op.template load<N>((first + i * kThreads) * N);
        }
      }
      TROUPE_UNROLL
      for (int i = 0; i < kUnits; ++i) {
        if (first + i * kThreads < units) {
          op.template store<N>(inputs[i], (first + i * kThreads) * N);
        }
      }
    }
    // The elements after the last unit.
    if (N > 1 && lane.block() == lane.num_blocks() - 1 &&
        lane.thread() < count % N) {
      const std::int64_t at = units * N + lane.thread();
      op.template store<1>(op.template load<1>(at), at);
    }
  }
};

/// Queues op for elements [0, count).
template <typename Op>
void launch_each(Backend& backend, const Op& op, std::int64_t count) {
  if (count == 0) {
    return;
  }
  const auto queue = [&](auto kernel) {
    using Kernel = decltype(kernel);
    const std::int64_t units = op.is_aligned() ? count / Op::kWide : count;
    launch(backend, kernel,
           {std::max<std::int64_t>(
               1, (units + Kernel::kPerBlock - 1) / Kernel::kPerBlock)});
  };
  if (op.is_aligned()) {
    queue(Each<Op, Op::kWide>{op, count});
  } else {
    queue(Each<Op, 1>{op, count});
  }
}

}  // namespace troupe::kernels::cuda
