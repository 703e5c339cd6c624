#include "tests/cuda/emulator/blas_algorithms.h"

#include <cstring>

namespace troupe::emulator {
namespace {

bool is_dense(const BlasLayout& layout) {
  return layout.rows >= 1 && layout.columns >= 1 &&
         layout.stride >= static_cast<std::int64_t>(layout.rows);
}

}  // namespace

cublasStatus_t describe(cublasLtHandle_t handle,
                        cublasLtMatmulDesc_t description,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        std::uint32_t refused_epilogues, Description& made) {
  if (object(handle) == nullptr) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  if (object(description) == nullptr || object(a) == nullptr ||
      object(b) == nullptr || object(c) == nullptr || object(d) == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  made = {*object(handle), *object(description), *object(a),
          *object(b),      *object(c),           *object(d)};
  const bool transposes_a = made.product.transpose_a == CUBLAS_OP_T;
  const bool transposes_b = made.product.transpose_b == CUBLAS_OP_T;
  const std::uint64_t k = transposes_a ? made.a.rows : made.a.columns;
  made.k = static_cast<std::int64_t>(k);
  const bool fits =
      is_dense(made.a) && is_dense(made.b) && is_dense(made.c) &&
      is_dense(made.d) &&
      (transposes_a ? made.a.columns : made.a.rows) == made.d.rows &&
      (transposes_b ? made.b.columns : made.b.rows) == k &&
      (transposes_b ? made.b.rows : made.b.columns) == made.d.columns &&
      made.c.rows == made.d.rows && made.c.columns == made.d.columns &&
      made.a.batch == made.d.batch && made.b.batch == made.d.batch &&
      made.c.batch == made.d.batch;
  if (!fits || (made.has_bias() && made.product.bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool is_f32 = made.a.type == CUDA_R_32F;
  const bool has_types =
      (is_f32 || made.a.type == CUDA_R_16BF || made.a.type == CUDA_R_16F) &&
      made.b.type == made.a.type && made.c.type == made.d.type &&
      (made.d.type == CUDA_R_32F || made.d.type == made.a.type) &&
      made.product.scale == CUDA_R_32F &&
      (made.product.compute == CUBLAS_COMPUTE_32F ||
       (is_f32 && made.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32));
  const bool has_epilogue =
      (made.product.epilogue & CUBLASLT_EPILOGUE_RELU) == 0 &&
      (made.product.epilogue & refused_epilogues) == 0 &&
      reinterpret_cast<std::uintptr_t>(made.product.bias) % 16 == 0;
  return has_types && has_epilogue ? CUBLAS_STATUS_SUCCESS
                                   : CUBLAS_STATUS_NOT_SUPPORTED;
}

std::uint32_t reduction_scheme(BlasAlgorithm algorithm) {
  switch (algorithm) {
    case BlasAlgorithm::split_k:
      return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    case BlasAlgorithm::split_k_in_place:
      return CUBLASLT_REDUCTION_SCHEME_INPLACE;
    default:
      return CUBLASLT_REDUCTION_SCHEME_NONE;
  }
}

std::int64_t num_splits(BlasAlgorithm algorithm) {
  return reduction_scheme(algorithm) == CUBLASLT_REDUCTION_SCHEME_NONE ? 1 : 2;
}

BlasSummation summation(BlasAlgorithm algorithm, const Description& d) {
  const auto columns = static_cast<std::int64_t>(d.d.columns);
  switch (algorithm) {
    case BlasAlgorithm::by_columns:
      return {.block = 3 + columns % 13};
    case BlasAlgorithm::by_batch:
      return {.block = 3 + (columns + d.d.batch) % 13};
    case BlasAlgorithm::vector:
      return {.block = 5};
    case BlasAlgorithm::split_k_in_place:
      return {.splits = 2, .rounds_parts = true};
    default:
      return {.splits = num_splits(algorithm)};
  }
}

std::size_t workspace_bytes(BlasAlgorithm algorithm, const Description& d) {
  const std::size_t elements =
      d.d.rows * d.d.columns * static_cast<std::uint64_t>(d.d.batch);
  switch (algorithm) {
    case BlasAlgorithm::split_k:
      return 2 * elements * sizeof(float);
    case BlasAlgorithm::split_k_in_place:
      return sizeof(std::uint32_t) * d.d.columns;
    default:
      return 0;
  }
}

bool can_run(BlasAlgorithm algorithm, const Description& d) {
  return algorithm != BlasAlgorithm::vector ||
         (d.d.columns == 1 && d.d.batch == 1);
}

std::vector<BlasAlgorithm> usual_order(const Description& d) {
  using enum BlasAlgorithm;
  switch (d.d.rows % 3) {
    case 0:
      return {vector, split_k, steady};
    case 1:
      return {vector, split_k_in_place, by_columns, steady};
    default:
      return {split_k, by_batch, vector, steady};
  }
}

std::optional<Choice> choice_of(const cublasLtMatmulAlgo_t* algorithm) {
  Choice choice;
  if (algorithm == nullptr) {
    return std::nullopt;
  }
  std::memcpy(static_cast<void*>(&choice), algorithm, sizeof(choice));
  return choice.magic == Choice::kMagic ? std::optional(choice) : std::nullopt;
}

cublasStatus_t check_choice(const std::optional<Choice>& choice,
                            const Description& made) {
  if (!choice || choice->input != made.a.type ||
      choice->output != made.d.type) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (choice->device != made.handle.device) {
    return CUBLAS_STATUS_ARCH_MISMATCH;
  }
  return can_run(choice->algorithm, made) ? CUBLAS_STATUS_SUCCESS
                                          : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace troupe::emulator
