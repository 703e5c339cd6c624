#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/ops.h"

namespace troupe::kernels::cuda {
namespace {

/// out[i] = activation(x[i]), a pack per thread, then the rest one by one.
template <typename From, typename To>
struct Activate {
  static constexpr const char* kName = "activate";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;
  /// As many elements as the wider type moves at once in two packs.
  static constexpr int kEach = 8;

  const From* x;
  To* out;
  std::int64_t count;
  Activation activation;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at =
        (lane.block() * kThreads + lane.thread()) * std::int64_t{kEach};
    for (int i = 0; i < kEach && at + i < count; ++i) {
      out[at + i] = from_float<To>(activated(to_float(x[at + i]), activation));
    }
  }
};

}  // namespace

void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) {
  Backend& backend = Backend::of(ctx);
  with_element(x.dtype(), [&](auto from) {
    with_element(out.dtype(), [&](auto to) {
      using Kernel = Activate<decltype(from), decltype(to)>;
      const Kernel kernel{x.data<decltype(from)>(), out.data<decltype(to)>(),
                          x.num_elements(), activation};
      launch(backend, kernel,
             {blocks_for(kernel.count, Kernel::kThreads * Kernel::kEach)});
    });
  });
}

}  // namespace troupe::kernels::cuda
