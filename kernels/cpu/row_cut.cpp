#include "kernels/cpu/row_cut.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/core/varied.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels::cpu {
namespace {

// Rows before the first block of the second cut. No library goes in steps of so
// many rows.
constexpr std::int64_t kOffset = 13;

/// Fixed pseudo-random numbers.
Tensor drawn(ExecContext& ctx, const Shape& shape, DType dtype,
             std::uint64_t seed) {
  Tensor values(shape, DType::f32);
  fill_varied(seed, values);
  return as_dtype(ctx, values, dtype);
}

/// One shape's products over rows of `a` [rows, K], of `height` rows each.
class Products {
 public:
  Products(ExecContext& ctx, MatmulShape shape) : ctx_(ctx), shape_(shape) {
    const Tensor b = drawn(ctx, {shape.n, shape.k}, shape.dtype, 1);
    if (shape.layout == Layout::packed) {
      packed_ = pack_panel(b);
    } else {
      b_ = b;
    }
  }

  /// Rows [0, rows) of the result, in blocks of `height` from row `first` on;
  /// rows before it are left out. `a` has the rows of the last block, too.
  [[nodiscard]] Tensor run(const std::byte* a, std::int64_t rows,
                           std::int64_t height, std::int64_t first) {
    MatmulShape shape = shape_;
    shape.m = height;
    Matmul& product = MatmulCache::of(ctx_).get(shape);
    std::byte* scratch = ctx_.scratch(0, product.scratch_bytes());
    Tensor out({rows, shape.n}, DType::f32);
    Tensor block({height, shape.n}, DType::f32);
    const std::int64_t row_bytes =
        shape.k * static_cast<std::int64_t>(size_of(shape.dtype));
    for (std::int64_t row = first; row < rows; row += height) {
      const std::byte* from = a + row * row_bytes;
      if (shape.layout == Layout::packed) {
        product.run(0, from, packed_, block.data<float>(), scratch);
      } else {
        product.run(0, from, b_.bytes().data(), block.data<float>(), scratch);
      }
      const std::int64_t kept = std::min(height, rows - row);
      std::memcpy(out.data<float>() + row * shape.n, block.data<float>(),
                  static_cast<std::size_t>(kept * shape.n) * sizeof(float));
    }
    return out;
  }

 private:
  ExecContext& ctx_;
  MatmulShape shape_;
  dnnl::memory packed_;
  Tensor b_;
};

bool same_rows(const Tensor& a, const Tensor& b, std::int64_t first) {
  const Tensor left = a.slice(first, a.dim(0));
  const Tensor right = b.slice(first, b.dim(0));
  return std::memcmp(left.bytes().data(), right.bytes().data(),
                     left.num_bytes()) == 0;
}

bool check_rows(ExecContext& ctx, const MatmulShape& shape) {
  Products products(ctx, shape);
  const std::int64_t rows = shape.m;
  const Tensor a = drawn(ctx, {rows + kRowBlock, shape.k}, shape.dtype, 2);
  const Tensor whole = products.run(a.bytes().data(), rows, rows, 0);
  // The same numbers one element further on in memory.
  const std::size_t element = size_of(shape.dtype);
  Tensor moved({static_cast<std::int64_t>(a.num_bytes() + element)}, DType::u8);
  std::byte* at = moved.bytes().data() + element;
  std::memcpy(at, a.bytes().data(), a.num_bytes());
  const std::int64_t offset = std::min(kOffset, rows - 1);
  return same_rows(products.run(a.bytes().data(), rows, kRowBlock, 0), whole,
                   0) &&
         same_rows(products.run(at, rows, kRowBlock, offset), whole, offset) &&
         same_rows(products.run(at, rows, rows, 0), whole, 0);
}

}  // namespace

RowCut cut_rows(std::int64_t rows, std::int64_t most,
                const std::function<bool(std::int64_t height)>& stand_alone) {
  const auto blocks_of = [&](std::int64_t height) {
    return RowCut{rows, height, (rows + height - 1) / height};
  };
  if (rows <= kRowBlock) {
    return blocks_of(rows);
  }
  const std::int64_t num_blocks = (rows + most - 1) / most;
  const RowCut even = blocks_of((rows + num_blocks - 1) / num_blocks);
  const std::int64_t tail = rows % kRowBlock;
  // Lower blocks gain nothing, and the check links the places of rows in
  // blocks that are taller than those that define the bytes.
  const bool may_join =
      even.block_rows > kRowBlock && stand_alone(even.block_rows) &&
      stand_alone(even.last_rows()) && (tail == 0 || stand_alone(tail));
  return may_join ? even : blocks_of(kRowBlock);
}

bool rows_stand_alone(ExecContext& ctx, const MatmulShape& shape) {
  std::map<MatmulShape, bool>& known = MatmulCache::of(ctx).row_checks();
  const auto found = known.find(shape);
  if (found != known.end()) {
    return found->second;
  }
  return known.emplace(shape, check_rows(ctx, shape)).first->second;
}

bool panels_stand_alone(ExecContext& ctx, const PackedMatrix& matrix,
                        std::int64_t height) {
  const auto holds = [&](std::int64_t panel) {
    return rows_stand_alone(ctx, product_shape(matrix, height, panel));
  };
  return holds(0) && holds(matrix.num_panels() - 1);
}

}  // namespace troupe::kernels::cpu
