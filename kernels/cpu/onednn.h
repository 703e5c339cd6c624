#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/dtype.h"

namespace troupe::kernels::cpu {

/// The one CPU engine; an immutable handle without state of its own.
[[nodiscard]] const dnnl::engine& engine();

/// f32 or bf16 in oneDNN's terms. Errors: Errc::invalid_argument.
[[nodiscard]] dnnl::memory::data_type library_type(DType dtype);

/// How the second operand of a product lies in memory.
enum class Layout : std::uint8_t {
  packed,      ///< as `packed_weights` says
  rows,        ///< [K, N] row-major
  transposed,  ///< [N, K] row-major
};

/// One matrix product [M, K] · [K, N] → [M, N]; the first operand and the
/// result are dense row-major, the result is f32.
struct MatmulShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  DType dtype = DType::f32;
  Layout layout = Layout::packed;

  auto operator<=>(const MatmulShape&) const = default;
};

/// Layout of packed [K, N] weights. It depends on (K, N, dtype) alone, so all
/// contexts use the same.
/// Errors: Errc::unsupported when this CPU cannot multiply `dtype`.
[[nodiscard]] dnnl::memory::desc packed_weights(std::int64_t k, std::int64_t n,
                                                DType dtype);

/// A compiled product, with a set of argument handles per pool thread so that
/// `run` need not allocate them.
/// Thread: calls of `run` with different `thread` may run at once.
class Matmul {
 public:
  Matmul(const MatmulShape& shape, int num_threads);

  /// Bytes that `scratch` must offer.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return scratch_bytes_;
  }
  /// The library's name of the implementation, for benchmarks.
  [[nodiscard]] const char* implementation() const {
    return descriptor_.impl_info_str();
  }

  void run(int thread, const void* a, const void* b, float* out,
           std::byte* scratch);
  /// The same with packed weights.
  void run(int thread, const void* a, const dnnl::memory& b, float* out,
           std::byte* scratch);

 private:
  struct Slot {
    dnnl::stream stream;
    dnnl::memory a;
    dnnl::memory b;
    dnnl::memory out;
    dnnl::memory scratch;
  };
  void execute(Slot& slot, const dnnl::memory& b, const void* a, float* out,
               std::byte* scratch);

  dnnl::matmul::primitive_desc descriptor_;
  dnnl::matmul primitive_;
  std::size_t scratch_bytes_ = 0;
  std::vector<Slot> slots_;
};

/// The compiled products of one context, made on first use and kept.
/// Thread: the context's, not inside a pool run.
class MatmulCache {
 public:
  /// The cache in ctx.backend(), made on the first call.
  [[nodiscard]] static MatmulCache& of(ExecContext& ctx);

  [[nodiscard]] Matmul& get(const MatmulShape& shape);
  /// Drops all products if there are more than kMostProducts; a product that is
  /// wanted again is compiled again. For operations whose shapes have no end,
  /// as attention over prompts of any length. Nobody may hold a product.
  void trim();
  [[nodiscard]] std::size_t size() const noexcept { return products_.size(); }
  /// The products of a network's layers are some dozens. One takes 0.1 to 0.2
  /// MiB.
  static constexpr std::size_t kMostProducts = 512;
  /// The answers that `rows_stand_alone` (row_cut.h) has found.
  [[nodiscard]] std::map<MatmulShape, bool>& row_checks() noexcept {
    return row_checks_;
  }

 private:
  explicit MatmulCache(int num_threads) : num_threads_(num_threads) {}

  int num_threads_;
  std::map<MatmulShape, std::unique_ptr<Matmul>> products_;
  std::map<MatmulShape, bool> row_checks_;
};

}  // namespace troupe::kernels::cpu
