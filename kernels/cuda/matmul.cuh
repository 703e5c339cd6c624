#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "kernels/core/dtype.h"
#include "kernels/core/tensor.h"
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/blas.cuh"

// Matrix products by cuBLASLt, and what keeps their bits from depending on the
// batch.

namespace troupe::kernels::cuda {

/// The product of one item: out [rows, n] = epilogue(x [rows, k] · weight
/// [n, k]ᵀ). The algorithm depends on this, the library and the device alone.
struct Problem {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType compute = DType::f32;  ///< of x and weight
  DType out = DType::f32;      ///< of out, and of the epilogue's bias
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  auto operator<=>(const Problem&) const = default;
};

/// The operands of a call: `items` items of a problem, each with all its rows
/// or with a shard of them.
struct ProductBatch {
  std::int64_t items = 0;
  std::int64_t rows = 0;  ///< of each item

  auto operator<=>(const ProductBatch&) const = default;
};

/// Addresses in device memory. The first row of each operand has the alignment
/// `row_alignment`, and so have all others.
struct ProductOperands {
  const void* weight = nullptr;
  const void* bias = nullptr;  ///< [n], aligned to 256 bytes, or null
  const void* x = nullptr;
  void* out = nullptr;
};

/// The alignment in bytes that algorithms are chosen for: what every row has in
/// a buffer that starts at a multiple of 256 bytes. It depends on the width
/// alone, so an item's place in its batch cannot change the algorithm.
[[nodiscard]] std::size_t row_alignment(std::int64_t width, DType dtype);

/// The products of one context: handle, workspace, and the algorithms that were
/// chosen. Made by Backend::state, so the first product of a context must not
/// be recorded.
///
/// The first algorithm in the library's order of preference that may be used is
/// taken; none is timed. So two runs on one machine choose alike and have the
/// same bits.
///
/// In batch-invariant mode the algorithm is chosen for one item, sums each
/// element in one sequence (k is not split), and serves every batch: as one
/// product over all rows, as a strided batch, or item by item. The first two
/// are used only after a bit check on this device, with numbers that reveal any
/// other order of summation. The check runs once per problem and batch, never
/// while work is recorded.
/// Thread: as Backend.
class Products {
 public:
  explicit Products(Backend& backend);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether the library has an algorithm for the problem.
  [[nodiscard]] bool supports(const Problem& problem);
  /// Queues the product of items that lie one after the other. Shards are
  /// computed with the algorithm of the whole; the first time, their bytes are
  /// compared with the whole's.
  /// Errors: Errc::unsupported when the library has no algorithm, or when a
  /// shard has other bytes.
  void run(const Problem& problem, const ProductBatch& batch,
           const ProductOperands& operands);

 private:
  using Layout = BlasHandle<cublasLtMatrixLayout_t>;

  /// How a batch goes to the library: as `calls` products in sequence, all with
  /// these layouts.
  struct Arrangement {
    Layout weight;
    Layout x;
    Layout out;
    std::int64_t calls = 1;
  };
  struct Plan {
    BlasHandle<cublasLtMatmulDesc_t> description;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
    std::map<ProductBatch, Arrangement> arrangements;
    /// By number of rows: whether so many rows alone have the bytes of the
    /// whole.
    std::map<std::int64_t, bool> shards;
  };

  [[nodiscard]] const BlasLt& blas() const { return backend_.libraries().blas; }
  [[nodiscard]] Plan& plan(const Problem& problem);
  [[nodiscard]] BlasHandle<cublasLtMatmulDesc_t> describe(
      const Problem& problem) const;
  [[nodiscard]] Layout layout(DType dtype, std::int64_t rows,
                              std::int64_t columns) const;
  [[nodiscard]] Arrangement merged(const Problem& problem,
                                   const ProductBatch& batch) const;
  [[nodiscard]] Arrangement strided(const Problem& problem,
                                    const ProductBatch& batch) const;
  [[nodiscard]] Arrangement one_by_one(const Problem& problem,
                                       const ProductBatch& batch) const;
  [[nodiscard]] std::optional<cublasLtMatmulAlgo_t> choose(
      const Problem& problem, const Plan& plan) const;
  [[nodiscard]] bool accepts(const Plan& plan, const Arrangement& arrangement,
                             const cublasLtMatmulAlgo_t& algorithm) const;
  [[nodiscard]] Arrangement arrange(const Problem& problem, Plan& plan,
                                    const ProductBatch& batch);
  [[nodiscard]] bool bits_agree(const Problem& problem, Plan& plan,
                                const Arrangement& arrangement,
                                const ProductBatch& batch);
  [[nodiscard]] bool shard_agrees(const Problem& problem, Plan& plan,
                                  std::int64_t rows);
  void check_shard(const Problem& problem, Plan& plan, std::int64_t rows);
  void queue(const Problem& problem, Plan& plan, const Arrangement& arrangement,
             std::int64_t rows, const ProductOperands& operands);

  Backend& backend_;
  BlasHandle<cublasLtHandle_t> handle_;
  std::shared_ptr<std::byte> workspace_;
  std::map<Problem, Plan> plans_;
};

}  // namespace troupe::kernels::cuda
