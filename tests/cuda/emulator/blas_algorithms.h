#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/cuda/emulator/blas.h"
#include "tests/cuda/emulator/blas_objects.h"
#include "tests/cuda/emulator/blas_product.h"

// What the emulated cuBLASLt checks a product for, and its algorithms.

namespace troupe::emulator {

/// What lies in a cublasLtMatmulAlgo_t of this library.
struct Choice {
  static constexpr std::uint64_t kMagic = 0x74726f7570650001U;

  std::uint64_t magic = kMagic;
  BlasAlgorithm algorithm = BlasAlgorithm::steady;
  std::uint8_t device = 0;
  cudaDataType input = CUDA_R_32F;
  cudaDataType output = CUDA_R_32F;
  /// That pointers were promised to have.
  std::uint32_t alignment_a = 256;
  std::uint32_t alignment_b = 256;
  std::uint32_t alignment_c = 256;
  std::uint32_t alignment_d = 256;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

/// Everything that a product is described by.
struct Description {
  BlasHandleObject handle;
  BlasDescription product;
  BlasLayout a, b, c, d;
  std::int64_t k = 0;

  [[nodiscard]] bool has_bias() const {
    return (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  }
};

/// INVALID_VALUE for what contradicts itself, NOT_SUPPORTED for what the
/// library's table of types does not have, or for a refused epilogue.
cublasStatus_t describe(cublasLtHandle_t handle,
                        cublasLtMatmulDesc_t description,
                        cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        std::uint32_t refused_epilogues, Description& made);

/// Nothing if it was not made by this library.
[[nodiscard]] std::optional<Choice> choice_of(
    const cublasLtMatmulAlgo_t* algorithm);
/// Whether the algorithm was made for such a product and can run it.
[[nodiscard]] cublasStatus_t check_choice(const std::optional<Choice>& choice,
                                          const Description& made);

[[nodiscard]] std::uint32_t reduction_scheme(BlasAlgorithm algorithm);
[[nodiscard]] std::int64_t num_splits(BlasAlgorithm algorithm);
[[nodiscard]] BlasSummation summation(BlasAlgorithm algorithm,
                                      const Description& d);
[[nodiscard]] std::size_t workspace_bytes(BlasAlgorithm algorithm,
                                          const Description& d);
[[nodiscard]] bool can_run(BlasAlgorithm algorithm, const Description& d);
/// The order of preference where the test has set none: one that depends on
/// the problem.
[[nodiscard]] std::vector<BlasAlgorithm> usual_order(const Description& d);

}  // namespace troupe::emulator
