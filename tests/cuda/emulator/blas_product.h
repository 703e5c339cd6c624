#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

// The arithmetic of the emulated cuBLASLt.

namespace troupe::emulator {

/// A matrix that lies column by column.
struct BlasMatrix {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;        ///< elements from column to column
  std::int64_t batch = 1;         ///< matrices
  std::int64_t batch_stride = 0;  ///< elements from matrix to matrix
};

/// How an algorithm adds: k is cut into `splits` parts, a part into blocks.
/// Blocks and parts are summed in ascending order.
struct BlasSummation {
  std::int64_t block = 64;
  std::int64_t splits = 1;
  /// Whether the sums of parts are rounded to the output's type.
  bool rounds_parts = false;
};

/// D = epilogue(alpha · op(A) · op(B) + beta · C), batch by batch.
struct BlasProduct {
  BlasMatrix a, b, c, d;
  bool transposes_a = false;
  bool transposes_b = false;
  const std::byte* a_data = nullptr;
  const std::byte* b_data = nullptr;
  const std::byte* c_data = nullptr;
  std::byte* d_data = nullptr;
  float alpha = 1;
  float beta = 0;
  bool rounds_to_tf32 = false;
  const std::byte* bias = nullptr;  ///< of D's type, or null
  bool applies_gelu = false;
  BlasSummation summation;
  std::byte* workspace = nullptr;
  std::size_t workspace_bytes = 0;  ///< that the algorithm uses
};

[[nodiscard]] std::size_t size_of(cudaDataType type);
/// Runs it: for queued work. Workspace that it uses is left full of NaN.
void multiply(const BlasProduct& product);

}  // namespace troupe::emulator
