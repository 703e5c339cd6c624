#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_cut.h"

namespace troupe::kernels::cpu {
namespace {

// At most this many rows in one product.
constexpr std::int64_t kMostRowsAtOnce = 256;
// Up to here reading the weights dominates: a panel then serves all items
// while it is in the cache.
constexpr std::int64_t kFewRows = 16;

void packed_linear(ExecContext& ctx, const Tensor& x,
                   const PackedMatrix& matrix, const LinearCall& call,
                   Tensor& out) {
  const std::int64_t items = x.dim(0);
  const std::int64_t rows = x.dim(1);
  const std::int64_t k = matrix.columns();
  const std::int64_t n = matrix.rows();
  if (items == 0 || rows == 0) {
    return;
  }
  const RowCut cut = cut_rows(rows, kMostRowsAtOnce, [&](std::int64_t height) {
    return panels_stand_alone(ctx, matrix, height);
  });
  const BlockProduct body(ctx, matrix, cut.block_rows);
  const BlockProduct last(ctx, matrix, cut.last_rows());
  const std::size_t scratch_bytes =
      std::max(body.scratch_bytes(), last.scratch_bytes());
  const Source source(x);
  const Target target(out);

  const auto multiply = [&](int thread, std::int64_t panel, std::int64_t unit) {
    const std::int64_t item = unit / cut.num_blocks;
    const std::int64_t block = unit % cut.num_blocks;
    const std::int64_t row = item * rows + block * cut.block_rows;
    const std::int64_t column = matrix.panel_begin(panel);
    Epilogue epilogue{.activation = call.activation, .adds = call.adds};
    if (matrix.bias() != nullptr) {
      epilogue.bias = matrix.bias() + column;
    }
    if (call.gate != nullptr) {
      epilogue.gate = call.gate + item * call.gate_stride + column;
    }
    const BlockProduct& product = block + 1 == cut.num_blocks ? last : body;
    product.run(thread, source.at(row * k).data, panel, epilogue,
                target.at(row * n + column), n,
                ctx.scratch(thread, scratch_bytes));
  };
  const std::int64_t units = items * cut.num_blocks;
  if (rows <= kFewRows) {
    ctx.pool().run(matrix.num_panels(), [&](std::int64_t panel, int thread) {
      for (std::int64_t unit = 0; unit < units; ++unit) {
        multiply(thread, panel, unit);
      }
    });
    return;
  }
  ctx.pool().run(matrix.num_panels() * units,
                 [&](std::int64_t piece, int thread) {
                   multiply(thread, piece / units, piece % units);
                 });
}

}  // namespace

LinearWeights pack_linear(ExecContext& ctx, const Tensor& weight,
                          const Tensor& bias, DType compute) {
  if (TiledMatrix::fits(weight.dim(0), weight.dim(1), compute)) {
    return TiledMatrix(ctx, weight, bias);
  }
  return PackedMatrix(ctx, weight, bias, compute);
}

void linear(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
            const LinearCall& call, Tensor& out) {
  if (const auto* tiled = std::get_if<TiledMatrix>(&weights)) {
    tiled_linear(ctx, x, *tiled, call, out);
  } else {
    packed_linear(ctx, x, std::get<PackedMatrix>(weights), call, out);
  }
}

bool can_multiply(DType compute) {
  if (compute != DType::f32 && compute != DType::bf16) {
    return false;
  }
  try {
    (void)packed_weights(64, 64, compute);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string matrix_library_version() {
  const dnnl::version_t* loaded = dnnl::version();
  return std::to_string(loaded->major) + "." + std::to_string(loaded->minor) +
         "." + std::to_string(loaded->patch);
}

}  // namespace troupe::kernels::cpu
