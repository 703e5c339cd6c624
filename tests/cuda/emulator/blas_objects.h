#pragma once

#include <cublasLt.h>

#include <cstdint>

#include "tests/cuda/emulator/blas.h"

// Handles and descriptors of the emulated cuBLASLt: objects on the heap that
// take the attributes the library documents, and no others.

namespace troupe::emulator {

struct BlasHandleObject {
  int device = 0;
};

struct BlasDescription {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  std::int32_t transpose_a = CUBLAS_OP_N;
  std::int32_t transpose_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool names_epilogue = false;
  const void* bias = nullptr;
  std::int64_t bias_batch_stride = 0;
};

struct BlasLayout {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t stride = 0;
  std::int32_t batch = 1;
  std::int64_t batch_stride = 0;
};

struct BlasPreference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256;
  std::uint32_t alignment_b = 256;
  std::uint32_t alignment_c = 256;
  std::uint32_t alignment_d = 256;
};

// The objects behind the library's pointers; null for what is not alive.
[[nodiscard]] const BlasHandleObject* object(cublasLtHandle_t handle);
[[nodiscard]] const BlasDescription* object(cublasLtMatmulDesc_t description);
[[nodiscard]] const BlasLayout* object(cublasLtMatrixLayout_t layout);
[[nodiscard]] const BlasPreference* object(
    cublasLtMatmulPreference_t preference);

[[nodiscard]] std::int64_t live_blas_objects();

// The library's functions, by the names of kernels/cuda/libraries.cuh.
cublasStatus_t blas_create(cublasLtHandle_t* handle);
cublasStatus_t blas_destroy(cublasLtHandle_t handle);
cublasStatus_t blas_matmul_desc_create(cublasLtMatmulDesc_t* description,
                                       cublasComputeType_t compute,
                                       cudaDataType_t scale);
cublasStatus_t blas_matmul_desc_destroy(cublasLtMatmulDesc_t description);
cublasStatus_t blas_matmul_desc_set_attribute(
    cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
    const void* value, std::size_t bytes);
cublasStatus_t blas_matrix_layout_create(cublasLtMatrixLayout_t* layout,
                                         cudaDataType type, std::uint64_t rows,
                                         std::uint64_t columns,
                                         std::int64_t stride);
cublasStatus_t blas_matrix_layout_destroy(cublasLtMatrixLayout_t layout);
cublasStatus_t blas_matrix_layout_set_attribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    const void* value, std::size_t bytes);
cublasStatus_t blas_preference_create(cublasLtMatmulPreference_t* preference);
cublasStatus_t blas_preference_destroy(cublasLtMatmulPreference_t preference);
cublasStatus_t blas_preference_set_attribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    std::size_t bytes);

}  // namespace troupe::emulator
