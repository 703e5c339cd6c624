#include "kernels/cpu/tiled_matrix.h"

#include <algorithm>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

// Rows of one piece times the depth of one slice: 256 × 1152 bf16, 32 packed
// columns and the sums stay together in a 2 MB second-level cache.
constexpr std::int64_t kPieceBlocks = 8;
constexpr std::int64_t kSliceDepth = 1152;
constexpr std::int64_t kPanelGroups = 8;
// Enough for threads to end at about the same time.
constexpr std::int64_t kTilesPerThread = 6;
// Columns converted at once while packing.
constexpr std::int64_t kPackedAtOnce = 256;

constexpr std::int64_t kBlockSums = kTileBlock * kTileBlock;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// How a product is cut. The cut does not change bits.
struct Cut {
  std::int64_t items;
  std::int64_t rows;  // per item
  std::int64_t item_blocks;
  std::int64_t blocks;
  std::int64_t chunks;
  std::int64_t groups;
  std::int64_t panels;
  std::int64_t slices;
  std::int64_t slice_depth;

  Cut(const Tensor& x, const TiledMatrix& matrix, bool gated, int threads)
      : items(gated ? x.dim(0) : 1),
        rows(gated ? x.dim(1) : x.dim(0) * x.dim(1)),
        item_blocks(divide_up(rows, kTileBlock)),
        blocks(items * item_blocks),
        groups(matrix.rows() / kTileBlock),
        panels(divide_up(groups, kPanelGroups)),
        slices(divide_up(matrix.columns(), kSliceDepth)),
        slice_depth(divide_up(matrix.columns() / kTileDepth, slices) *
                    kTileDepth) {
    const std::int64_t wanted = divide_up(kTilesPerThread * threads, panels);
    chunks =
        std::min(blocks, std::max(divide_up(blocks, kPieceBlocks), wanted));
  }
};

/// One piece: blocks of rows by groups of columns.
class Piece {
 public:
  Piece(const Tensor& x, const TiledMatrix& matrix, const LinearCall& call,
        Tensor& out, const Cut& cut, std::int64_t piece)
      : x_(x),
        matrix_(matrix),
        call_(call),
        out_(out),
        cut_(cut),
        block_begin_(piece % cut.chunks * cut.blocks / cut.chunks),
        block_end_((piece % cut.chunks + 1) * cut.blocks / cut.chunks),
        group_begin_(piece / cut.chunks * kPanelGroups),
        group_end_(std::min(cut.groups, group_begin_ + kPanelGroups)) {}

  void run(float* sums) {
    for (std::int64_t slice = 0; slice < cut_.slices; ++slice) {
      for (std::int64_t group = group_begin_; group < group_end_; ++group) {
        for (std::int64_t block = block_begin_; block < block_end_; ++block) {
          multiply(slice, group, block, sums);
        }
      }
    }
  }

 private:
  void multiply(std::int64_t slice, std::int64_t group, std::int64_t block,
                float* sums) {
    const std::int64_t k = slice * cut_.slice_depth;
    const std::int64_t depth =
        std::min(cut_.slice_depth, matrix_.columns() - k);
    const std::int64_t item = block / cut_.item_blocks;
    const std::int64_t first = block % cut_.item_blocks * kTileBlock;
    const std::int64_t rows = std::min(kTileBlock, cut_.rows - first);
    const std::int64_t row = item * cut_.rows + first;
    // With one slice a block's sums live shortly and all blocks share a place.
    float* sum = sums;
    if (cut_.slices > 1) {
      sum += ((group - group_begin_) * (block_end_ - block_begin_) + block -
              block_begin_) *
             kBlockSums;
    }
    unit_.set_rows(rows);
    multiply_tiles(Source(x_).at(row * matrix_.columns() + k).data,
                   matrix_.columns() * 2, matrix_.group(group, k), depth, rows,
                   slice > 0, prefetch(group, block, k, depth), sum);
    if (slice + 1 == cut_.slices) {
      finish(group, item, row, rows, sum);
    }
  }

  /// This block's share of the next group.
  [[nodiscard]] TilePrefetch prefetch(std::int64_t group, std::int64_t block,
                                      std::int64_t k,
                                      std::int64_t depth) const {
    constexpr std::int64_t kLine = 64;
    constexpr std::int64_t kMostLines = 4;
    if (group + 1 == group_end_) {
      return {};
    }
    const std::int64_t lines =
        std::min(kMostLines,
                 divide_up(kTileGroupBytes / kLine, block_end_ - block_begin_));
    const std::int64_t steps = depth / kTileDepth;
    const std::int64_t begin = (block - block_begin_) * lines * steps * kLine;
    if (begin + lines * steps * kLine > steps * kTileGroupBytes) {
      return {};
    }
    return {matrix_.group(group + 1, k) + begin, lines};
  }

  void finish(std::int64_t group, std::int64_t item, std::int64_t row,
              std::int64_t rows, const float* sum) {
    const std::int64_t column = group * kTileBlock;
    Epilogue epilogue{.activation = call_.activation, .adds = call_.adds};
    if (matrix_.bias() != nullptr) {
      epilogue.bias = matrix_.bias() + column;
    }
    if (call_.gate != nullptr) {
      epilogue.gate = call_.gate + item * call_.gate_stride + column;
    }
    finish_product(sum, rows, kTileBlock, epilogue,
                   Target(out_).at(row * matrix_.rows() + column),
                   matrix_.rows());
  }

  const Tensor& x_;
  const TiledMatrix& matrix_;
  const LinearCall& call_;
  Tensor& out_;
  const Cut& cut_;
  std::int64_t block_begin_, block_end_;
  std::int64_t group_begin_, group_end_;
  TileUnit unit_;
};

}  // namespace

bool TiledMatrix::fits(std::int64_t n, std::int64_t k, DType compute) {
  return compute == DType::bf16 && n % kTileBlock == 0 && k % kTileDepth == 0 &&
         has_tiles();
}

TiledMatrix::TiledMatrix(ExecContext& ctx, const Tensor& weight,
                         const Tensor& bias)
    : n_(weight.dim(0)), k_(weight.dim(1)), tiles_({n_, k_, 2}, DType::u8) {
  for (std::int64_t begin = 0; begin < n_; begin += kPackedAtOnce) {
    const std::int64_t end = std::min(n_, begin + kPackedAtOnce);
    const Tensor rows = as_dtype(ctx, weight.slice(begin, end), DType::bf16);
    ctx.pool().run((end - begin) / kTileBlock, [&](std::int64_t block, int) {
      const std::int64_t row = block * kTileBlock;
      pack_tiles(rows.data<bfloat16>() + row * k_, k_, k_,
                 tiles_.bytes().data() + (begin + row) * k_ * 2);
    });
  }
  bias_ = f32_copy(ctx, bias);
}

void tiled_linear(ExecContext& ctx, const Tensor& x, const TiledMatrix& matrix,
                  const LinearCall& call, Tensor& out) {
  if (out.empty()) {
    return;
  }
  const Cut cut(x, matrix, call.gate != nullptr, ctx.num_threads());
  const std::int64_t places =
      cut.slices == 1 ? 1 : divide_up(cut.blocks, cut.chunks) * kPanelGroups;
  const auto scratch_bytes =
      static_cast<std::size_t>(places * kBlockSums) * sizeof(float);
  ctx.pool().run(cut.panels * cut.chunks, [&](std::int64_t index, int thread) {
    Piece piece(x, matrix, call, out, cut, index);
    piece.run(reinterpret_cast<float*>(ctx.scratch(thread, scratch_bytes)));
  });
}

}  // namespace troupe::kernels::cpu
