#include "kernels/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/elementwise.h"

namespace troupe::kernels::cpu {
namespace {

// With 256 rows, an f32 accumulator of this width, the panel and the rows of x
// stay together in a 2 MB second-level cache at K ≈ 1000.
constexpr std::int64_t kPanelWidth = 192;
// The library's blocks of columns.
constexpr std::int64_t kPanelUnit = 64;

constexpr std::size_t kAlignment = 64;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t choose_panel_width(std::int64_t n) {
  const std::int64_t panels = (n + kPanelWidth - 1) / kPanelWidth;
  const std::int64_t even = (n + panels - 1) / panels;
  return std::min(n, (even + kPanelUnit - 1) / kPanelUnit * kPanelUnit);
}

}  // namespace

Tensor as_dtype(ExecContext& ctx, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) {
    return x;
  }
  Tensor out(x.shape(), dtype);
  if (x.dtype() == DType::f16 && dtype == DType::bf16) {
    convert(ctx, as_dtype(ctx, x, DType::f32), out);
  } else {
    convert(ctx, x, out);
  }
  return out;
}

Tensor f32_copy(ExecContext& ctx, const Tensor& bias) {
  if (bias.empty()) {
    return {};
  }
  const Tensor f32 = as_dtype(ctx, bias, DType::f32);
  return f32.owner() == bias.owner() ? f32.clone() : f32;
}

dnnl::memory pack_panel(const Tensor& rows) {
  using dnnl::memory;
  const std::int64_t n = rows.dim(0);
  const std::int64_t k = rows.dim(1);
  const memory::desc plain(memory::dims{k, n}, library_type(rows.dtype()),
                           memory::dims{1, k});
  memory from(plain, engine(), const_cast<std::byte*>(rows.bytes().data()));
  memory to(packed_weights(k, n, rows.dtype()), engine());
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::reorder::primitive_desc how(from, to, attributes);
  memory scratch(how.scratchpad_desc(), engine());
  dnnl::stream stream(engine());
  dnnl::reorder(how).execute(stream, {{DNNL_ARG_FROM, from},
                                      {DNNL_ARG_TO, to},
                                      {DNNL_ARG_SCRATCHPAD, scratch}});
  stream.wait();
  return to;
}

PackedMatrix::PackedMatrix(ExecContext& ctx, const Tensor& weight,
                           const Tensor& bias, DType compute)
    : n_(weight.dim(0)),
      k_(weight.dim(1)),
      panel_width_(choose_panel_width(weight.dim(0))),
      compute_(compute) {
  const Tensor converted = as_dtype(ctx, weight, compute);
  panels_.resize(
      static_cast<std::size_t>((n_ + panel_width_ - 1) / panel_width_));
  // The library's own threads would be started for the first panel.
  use_one_openmp_thread();
  ctx.pool().run(num_panels(), [&](std::int64_t panel, int /*thread*/) {
    const std::int64_t begin = panel * panel_width_;
    panels_[static_cast<std::size_t>(panel)] =
        pack_panel(converted.slice(begin, std::min(n_, begin + panel_width_)));
  });
  for (const dnnl::memory& panel : panels_) {
    num_bytes_ += panel.get_desc().get_size();
  }
  bias_ = f32_copy(ctx, bias);
  num_bytes_ += bias_.num_bytes();
}

MatmulShape product_shape(const PackedMatrix& matrix, std::int64_t rows,
                          std::int64_t panel) {
  return {.m = rows,
          .n = matrix.panel_width(panel),
          .k = matrix.columns(),
          .dtype = matrix.compute(),
          .layout = Layout::packed};
}

BlockProduct::BlockProduct(ExecContext& ctx, const PackedMatrix& matrix,
                           std::int64_t rows)
    : matrix_(matrix), rows_(rows) {
  MatmulCache& cache = MatmulCache::of(ctx);
  const std::int64_t last = matrix.num_panels() - 1;
  body_ = &cache.get(product_shape(matrix, rows, 0));
  last_ = &cache.get(product_shape(matrix, rows, last));
  accumulator_bytes_ = rounded_up(
      static_cast<std::size_t>(rows * matrix.panel_width(0)) * sizeof(float));
  library_bytes_ = std::max(body_->scratch_bytes(), last_->scratch_bytes());
}

void BlockProduct::run(int thread, const void* x, std::int64_t panel,
                       const Epilogue& epilogue, Target out,
                       std::int64_t out_stride, std::byte* scratch) const {
  auto* acc = reinterpret_cast<float*>(scratch);
  Matmul& product = panel + 1 == matrix_.num_panels() ? *last_ : *body_;
  product.run(thread, x, matrix_.panel(panel), acc,
              scratch + accumulator_bytes_);
  finish_product(acc, rows_, matrix_.panel_width(panel), epilogue, out,
                 out_stride);
}

}  // namespace troupe::kernels::cpu
