#include <algorithm>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t kPieceElements = 16384;

}  // namespace

void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out) {
  const std::int64_t count = x.num_elements();
  ctx.pool().run((count + kPieceElements - 1) / kPieceElements,
                 [&](std::int64_t piece, int /*thread*/) {
                   const std::int64_t begin = piece * kPieceElements;
                   activate_row(Source(x).at(begin),
                                std::min(kPieceElements, count - begin),
                                activation, Target(out).at(begin));
                 });
}

void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out) {
  if (out.empty()) {
    return;
  }
  const std::int64_t width = out.dim(out.shape().rank() - 1);
  const std::int64_t rows = out.num_elements() / width;
  const std::int64_t piece_rows =
      std::max<std::int64_t>(1, kPieceElements / width);
  ctx.pool().run((rows + piece_rows - 1) / piece_rows, [&](std::int64_t piece,
                                                           int /*thread*/) {
    const std::int64_t end = std::min(rows, (piece + 1) * piece_rows);
    for (std::int64_t row = piece * piece_rows; row < end; ++row) {
      const Source from = Source(x).at(2 * row * width);
      activate_gated_row(from, from.at(width), width, activation,
                         Target(out).at(row * width));
    }
  });
}

}  // namespace troupe::kernels::cpu
