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

/// out [rows, n] = epilogue(x [rows, k] · weight [n, k]ᵀ): what one item of a
/// batch asks for. The chosen algorithm is a function of this, the library and
/// the device alone.
struct Problem {
  std::int64_t rows = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType compute = DType::f32;  ///< of x and weight
  DType out = DType::f32;      ///< of out, and of the epilogue's bias
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;

  auto operator<=>(const Problem&) const = default;
};

/// What is there of a problem: all rows of every item, or a shard of them.
struct ProductBatch {
  std::int64_t items = 0;
  std::int64_t rows = 0;  ///< of each item

  auto operator<=>(const ProductBatch&) const = default;
};

/// Addresses in device memory; each row is as aligned as its width allows when
/// the first is: see row_alignment.
struct ProductOperands {
  const void* weight = nullptr;
  const void* bias = nullptr;  ///< [n], aligned to 256 bytes, or null
  const void* x = nullptr;
  void* out = nullptr;
};

/// The alignment that algorithms are chosen for: of every row in a buffer that
/// starts at a multiple of 256 bytes. It follows from the width alone, so the
/// place of an item in its batch cannot change the algorithm.
[[nodiscard]] std::size_t row_alignment(std::int64_t width, DType dtype);

/// The products of one context: handle, workspace, and the algorithms that were
/// chosen. Made by Backend::state, so the first product of a context must not
/// be recorded.
///
/// Algorithms follow the library's own order of preference and are never timed:
/// two runs on one machine choose alike, and so have the same bits.
///
/// In batch-invariant mode the algorithm of a problem adds up each element in
/// one sequence (no split of k), is chosen for one item and serves every batch:
/// as one product over all rows, as a strided batch, or item by item. The first
/// two only after a bit check on this device with numbers that show every other
/// order of summation: it runs once per problem and batch, outside recordings.
/// Thread: as Backend.
class Products {
 public:
  explicit Products(Backend& backend);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// Whether the library has an algorithm for the problem.
  [[nodiscard]] bool supports(const Problem& problem);
  /// Queues the product of items that lie one behind the other. A batch of
  /// shards of `problem` uses the algorithm of the whole: the first time, the
  /// bytes of such a shard are compared with the whole's.
  /// Errors: Errc::unsupported when the library has no algorithm, or when a
  /// shard has other bytes.
  void run(const Problem& problem, const ProductBatch& batch,
           const ProductOperands& operands);

 private:
  using Layout = BlasHandle<cublasLtMatrixLayout_t>;

  /// How a batch is handed to the library: `calls` products one after another,
  /// each over the layouts.
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
    /// Whether so many rows alone have the bytes of the whole.
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
