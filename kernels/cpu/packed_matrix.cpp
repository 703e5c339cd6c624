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

constexpr std::size_t kPanelAlignment = 64;

std::size_t whole_panel_lines(std::size_t bytes) {
  return (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment;
}

// The library's layout of bf16 weights [K, N] on processors with AVX-512: tiles
// of 32 rows and 64 columns, pairs of rows side by side.
constexpr std::int64_t kTileRows = 32;
constexpr std::int64_t kTileColumns = 64;

/// Whether `packed` is that layout, without padding.
bool is_paired(const dnnl::memory::desc& packed) {
  const auto& blocks = packed.data.format_desc.blocking;
  const auto& dims = packed.data.dims;
  const bool has_tiles =
      packed.data.format_kind == dnnl_blocked && blocks.inner_nblks == 3 &&
      blocks.inner_blks[0] == kTileRows / 2 && blocks.inner_idxs[0] == 0 &&
      blocks.inner_blks[1] == kTileColumns && blocks.inner_idxs[1] == 1 &&
      blocks.inner_blks[2] == 2 && blocks.inner_idxs[2] == 0;
  return has_tiles && packed.data.data_type == dnnl_bf16 &&
         packed.data.offset0 == 0 && packed.data.extra.flags == 0 &&
         blocks.strides[0] == kTileRows * kTileColumns &&
         blocks.strides[1] == dims[0] * kTileColumns &&
         dims[0] % kTileRows == 0 && dims[1] % kTileColumns == 0;
}

/// The bytes that the library's reorder would write, in a quarter of its time.
void pack_paired(const Tensor& rows, std::byte* to) {
  const std::int64_t columns = rows.dim(0);
  const std::int64_t pairs = rows.dim(1) / 2;
  const auto* from =
      reinterpret_cast<const std::uint32_t*>(rows.bytes().data());
  auto* out = reinterpret_cast<std::uint32_t*>(to);
  constexpr std::int64_t kTilePairs = kTileRows / 2;
  for (std::int64_t n = 0; n < columns; n += kTileColumns) {
    for (std::int64_t k = 0; k < pairs; k += kTilePairs) {
      const std::uint32_t* tile = from + n * pairs + k;
      for (std::int64_t column = 0; column < kTileColumns; ++column) {
        for (std::int64_t pair = 0; pair < kTilePairs; ++pair) {
          out[pair * kTileColumns + column] = tile[column * pairs + pair];
        }
      }
      out += kTilePairs * kTileColumns;
    }
  }
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

dnnl::memory pack_panel(const Tensor& rows, void* place) {
  using dnnl::memory;
  const std::int64_t n = rows.dim(0);
  const std::int64_t k = rows.dim(1);
  const memory::desc plain(memory::dims{k, n}, library_type(rows.dtype()),
                           memory::dims{1, k});
  memory from(plain, engine(), const_cast<std::byte*>(rows.bytes().data()));
  const memory::desc packed = packed_weights(k, n, rows.dtype());
  memory to(packed, engine(), place);
  if (is_paired(packed)) {
    pack_paired(rows, static_cast<std::byte*>(to.get_data_handle()));
    return to;
  }
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
  const auto bytes_of = [&](std::int64_t width) {
    return packed_weights(k_, width, compute).get_size();
  };
  const std::size_t stride = whole_panel_lines(bytes_of(panel_width_));
  const auto before_last = static_cast<std::size_t>(num_panels() - 1);
  num_bytes_ = stride * before_last + bytes_of(panel_width(num_panels() - 1));
  memory_ = Tensor({static_cast<std::int64_t>(num_bytes_)}, DType::u8);
  // The library's own threads would be started for the first panel.
  use_one_openmp_thread();
  ctx.pool().run(num_panels(), [&](std::int64_t panel, int /*thread*/) {
    const std::int64_t begin = panel * panel_width_;
    const auto index = static_cast<std::size_t>(panel);
    panels_[index] =
        pack_panel(converted.slice(begin, std::min(n_, begin + panel_width_)),
                   memory_.bytes().data() + index * stride);
  });
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
  accumulator_bytes_ = whole_panel_lines(
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
