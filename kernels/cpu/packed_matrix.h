#pragma once

#include <algorithm>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {

/// x (f32, bf16 or f16) converted to `dtype` (f32 or bf16); x itself if x has
/// the dtype.
[[nodiscard]] Tensor as_dtype(ExecContext& ctx, const Tensor& x, DType dtype);
/// A copy of `bias` in f32; empty if `bias` is.
[[nodiscard]] Tensor f32_copy(ExecContext& ctx, const Tensor& bias);

/// Packs rows of weights [N, K], f32 or bf16, into the layout `packed_weights`,
/// at `place` or in memory of its own.
[[nodiscard]] dnnl::memory pack_panel(const Tensor& rows,
                                      void* place = DNNL_MEMORY_ALLOCATE);

/// Weights [N, K] cut into column panels of the product x · weightᵀ, each in
/// the layout that the library multiplies fastest. Immutable once made.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// weight: [N, K] f32, bf16 or f16, N and K at least 1; bias: [N] or empty.
  PackedMatrix(ExecContext& ctx, const Tensor& weight, const Tensor& bias,
               DType compute);

  [[nodiscard]] std::int64_t rows() const noexcept { return n_; }
  [[nodiscard]] std::int64_t columns() const noexcept { return k_; }
  [[nodiscard]] DType compute() const noexcept { return compute_; }
  [[nodiscard]] std::size_t num_bytes() const noexcept { return num_bytes_; }
  [[nodiscard]] std::int64_t num_panels() const noexcept {
    return static_cast<std::int64_t>(panels_.size());
  }
  [[nodiscard]] std::int64_t panel_begin(std::int64_t panel) const noexcept {
    return panel * panel_width_;
  }
  [[nodiscard]] std::int64_t panel_width(std::int64_t panel) const noexcept {
    return std::min(panel_width_, n_ - panel_begin(panel));
  }
  [[nodiscard]] const dnnl::memory& panel(std::int64_t index) const {
    return panels_[static_cast<std::size_t>(index)];
  }
  /// Null without bias.
  [[nodiscard]] const float* bias() const {
    return bias_.empty() ? nullptr : bias_.data<float>();
  }

 private:
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  std::int64_t panel_width_ = 0;
  DType compute_ = DType::f32;
  std::size_t num_bytes_ = 0;
  Tensor memory_;  ///< u8, of all panels
  std::vector<dnnl::memory> panels_;
  Tensor bias_;
};

/// The product of `rows` rows and a panel.
[[nodiscard]] MatmulShape product_shape(const PackedMatrix& matrix,
                                        std::int64_t rows, std::int64_t panel);

/// The compiled products for blocks of `rows` rows: one product for full
/// panels, and one for the last panel, which may be narrower.
class BlockProduct {
 public:
  BlockProduct(ExecContext& ctx, const PackedMatrix& matrix, std::int64_t rows);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Scratch that `run` needs.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return accumulator_bytes_ + library_bytes_;
  }
  /// out[:, panel] = epilogue(x · panel). x: dense [rows, K] in the compute
  /// type. out: the panel's first element; rows are `out_stride` elements
  /// apart. epilogue: its bias and gate begin at the panel's first column.
  void run(int thread, const void* x, std::int64_t panel,
           const Epilogue& epilogue, Target out, std::int64_t out_stride,
           std::byte* scratch) const;

 private:
  const PackedMatrix& matrix_;
  std::int64_t rows_;
  Matmul* body_;
  Matmul* last_;
  std::size_t accumulator_bytes_;
  std::size_t library_bytes_;
};

}  // namespace troupe::kernels::cpu
