#pragma once

#include <memory>
#include <string_view>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/cuda/libraries.cuh"

// What all callers of cuBLASLt need.

namespace troupe::kernels::cuda {

/// Throws the error that `status` means: Errc::device_full, Errc::unsupported
/// or Errc::internal; for a failed execution, the error of the CUDA runtime.
void check(const BlasLt& blas, cublasStatus_t status, std::string_view place);

/// f32, bf16 or f16 in the library's terms. Errors: Errc::internal.
[[nodiscard]] cudaDataType_t blas_type(DType dtype);

/// A descriptor of the library, destroyed with its owner.
template <typename Descriptor>
using BlasHandle = std::unique_ptr<std::remove_pointer_t<Descriptor>,
                                   cublasStatus_t (*)(Descriptor)>;

template <typename Descriptor, typename Create, typename... Args>
[[nodiscard]] BlasHandle<Descriptor> make_blas(
    const BlasLt& blas, std::string_view place, Create create,
    cublasStatus_t (*destroy)(Descriptor), Args... args) {
  Descriptor descriptor = nullptr;
  check(blas, create(&descriptor, args...), place);
  return {descriptor, destroy};
}

/// Sets an attribute. `setter` is the function of BlasLt for this kind of
/// descriptor.
template <typename Setter, typename Descriptor, typename Name, typename Value>
void set_blas(const BlasLt& blas, std::string_view place, Setter setter,
              Descriptor descriptor, Name name, Value value) {
  check(blas, setter(descriptor, name, &value, sizeof(value)), place);
}

/// Whether an algorithm sums each element in one sequence, without splitting k.
[[nodiscard]] bool sums_in_one_sequence(const BlasLt& blas,
                                        const cublasLtMatmulAlgo_t& algorithm,
                                        std::string_view place);

}  // namespace troupe::kernels::cuda
