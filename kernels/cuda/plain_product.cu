#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/plain_product.cuh"

namespace troupe::kernels::cuda {
namespace {

/// A thread per element.
template <typename T>
struct PlainProduct {
  static constexpr const char* kName = "plain product";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  const T* x;
  const T* weight;
  float* out;
  std::int64_t count;
  std::int64_t n;
  std::int64_t k;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at = lane.block() * kThreads + lane.thread();
    if (at >= count) {
      return;
    }
    const T* row = x + at / n * k;
    const T* column = weight + at % n * k;
    float sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      sum = add(sum, multiply(to_float(row[i]), to_float(column[i])));
    }
    out[at] = sum;
  }
};

}  // namespace

void multiply_plainly(Backend& backend, const Tensor& x, const Tensor& weight,
                      Tensor& out) {
  with_element(weight.dtype(), [&](auto element) {
    using T = decltype(element);
    using Kernel = PlainProduct<T>;
    launch(backend,
           Kernel{x.data<T>(), weight.data<T>(), out.data<float>(),
                  out.num_elements(), weight.dim(0), weight.dim(1)},
           {blocks_for(out.num_elements(), Kernel::kThreads)});
  });
}

}  // namespace troupe::kernels::cuda
