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

/// Layout of packed [K, N] weights: a function of (K, N, dtype) alone, so
/// contexts agree on it without talking.
/// Errors: Errc::unsupported when this CPU cannot multiply `dtype`.
[[nodiscard]] dnnl::memory::desc packed_weights(std::int64_t k, std::int64_t n,
                                                DType dtype);

/// A compiled product with one set of argument handles per pool thread, so
/// running it allocates nothing of ours.
/// Thread: `run` may be called at once with different `thread`.
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

/// Compiled products of one context, made on first use and kept. Thread: look
/// up on the context's thread, before the pool runs.
class MatmulCache {
 public:
  /// The cache in ctx.backend(), made on the first call.
  [[nodiscard]] static MatmulCache& of(ExecContext& ctx);

  [[nodiscard]] Matmul& get(const MatmulShape& shape);
  /// What `rows_stand_alone` (row_cut.h) has found.
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
