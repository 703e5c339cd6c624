#include "kernels/cuda/blas.cuh"

#include <string>

#include "kernels/core/error.h"
#include "kernels/cuda/backend.cuh"

namespace troupe::kernels::cuda {

void check(const BlasLt& blas, cublasStatus_t status, std::string_view place) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return;
  }
  check_alive(place);
  const std::string cause =
      std::string("cuBLASLt reports: ") + blas.status_string(status);
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      throw Error(Errc::device_full, place, cause);
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      throw Error(Errc::unsupported, place, cause);
    default:
      throw Error(Errc::internal, place, cause);
  }
}

cudaDataType_t blas_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Error(Errc::internal, "cuBLASLt",
                  "no products of this element type");
  }
}

bool sums_in_one_sequence(const BlasLt& blas,
                          const cublasLtMatmulAlgo_t& algorithm,
                          std::string_view place) {
  std::int32_t splits = 0;
  std::uint32_t scheme = 0;
  std::size_t written = 0;
  check(blas,
        blas.algo_config_get_attribute(&algorithm,
                                       CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                       sizeof(splits), &written),
        place);
  check(blas,
        blas.algo_config_get_attribute(&algorithm,
                                       CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                       &scheme, sizeof(scheme), &written),
        place);
  return splits <= 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

}  // namespace troupe::kernels::cuda
