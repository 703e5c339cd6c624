#include <array>
#include <cstdlib>
#include <string_view>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/row_cut.h"
#include "kernels/row_blocks.h"
#include "tests/kernels/reference.h"

// Which heights of blocks give the bytes of the blocks that define them.
namespace troupe::kernels {
namespace {

TEST(RowCut, JoinsBlocksOnlyWhereEveryHeightStandsAlone) {
  using cpu::cut_rows;
  const auto shape_of = [](const cpu::RowCut& cut) {
    return std::array{cut.num_blocks, cut.block_rows, cut.last_rows()};
  };
  const auto always = [](std::int64_t) { return true; };
  const auto never = [](std::int64_t) { return false; };
  using Cut = std::array<std::int64_t, 3>;
  EXPECT_EQ(shape_of(cut_rows(256, 256, always)), (Cut{1, 256, 256}));
  EXPECT_EQ(shape_of(cut_rows(300, 256, always)), (Cut{2, 150, 150}));
  EXPECT_EQ(shape_of(cut_rows(100, 64, always)), (Cut{2, 64, 36}));
  EXPECT_EQ(shape_of(cut_rows(256, 256, never)), (Cut{4, 64, 64}));
  EXPECT_EQ(shape_of(cut_rows(300, 256, never)), (Cut{5, 64, 44}));
  EXPECT_EQ(shape_of(cut_rows(kRowBlock, 256, never)), (Cut{1, 64, 64}));
  EXPECT_EQ(shape_of(cut_rows(3, 256, never)), (Cut{1, 3, 3}));
  // The blocks that define the bytes end with 44 rows: they count as well.
  for (const std::int64_t wrong : {150, 44}) {
    const auto all_but = [&](std::int64_t height) { return height != wrong; };
    EXPECT_EQ(shape_of(cut_rows(300, 256, all_but)), (Cut{5, 64, 44})) << wrong;
  }
}

/// Whether rows of products of `height` and of kRowBlock rows differ somewhere:
/// with numbers of its own, at every place.
bool differs(ExecContext& ctx, const cpu::MatmulShape& shape) {
  cpu::MatmulShape block = shape;
  block.m = kRowBlock;
  cpu::MatmulCache& cache = cpu::MatmulCache::of(ctx);
  cpu::Matmul& tall = cache.get(shape);
  cpu::Matmul& low = cache.get(block);
  const Tensor a =
      random_tensor({shape.m + kRowBlock, shape.k}, shape.dtype, 25);
  const Tensor b = random_tensor({shape.n, shape.k}, shape.dtype, 26);
  Tensor whole({shape.m, shape.n}, DType::f32);
  Tensor part({kRowBlock, shape.n}, DType::f32);
  const auto row_bytes =
      static_cast<std::size_t>(shape.k) * size_of(shape.dtype);
  std::byte* scratch =
      ctx.scratch(0, std::max(tall.scratch_bytes(), low.scratch_bytes()));
  const bool is_packed = shape.layout == cpu::Layout::packed;
  const dnnl::memory packed = is_packed ? cpu::pack_panel(b) : dnnl::memory();
  const auto multiply = [&](cpu::Matmul& product, const std::byte* rows,
                            Tensor& out) {
    if (is_packed) {
      product.run(0, rows, packed, out.data<float>(), scratch);
    } else {
      product.run(0, rows, b.bytes().data(), out.data<float>(), scratch);
    }
  };
  multiply(tall, a.bytes().data(), whole);
  for (std::int64_t first = 0; first < shape.m; ++first) {
    multiply(low,
             a.bytes().data() + static_cast<std::size_t>(first) * row_bytes,
             part);
    const std::int64_t rows = std::min(kRowBlock, shape.m - first);
    if (!bytes_equal(whole.slice(first, first + rows), part.slice(0, rows))) {
      return true;
    }
  }
  return false;
}

// The check draws one set of numbers and two offsets; here are all of them.
TEST(RowCut, FindsEveryHeightWhoseRowsDiffer) {
  ExecContext ctx;
  int found = 0;
  for (const DType dtype : compute_types()) {
    for (const std::int64_t height : {1, 7, 44, 63, 100, 150, 256}) {
      for (const auto& [n, k] :
           {std::pair<std::int64_t, std::int64_t>{192, 192},
            {97, 333},
            {256, 72},
            {40, 300},
            {8, 1}}) {
        for (const auto layout : {cpu::Layout::packed, cpu::Layout::rows,
                                  cpu::Layout::transposed}) {
          const cpu::MatmulShape shape{height, n, k, dtype, layout};
          if (differs(ctx, shape)) {
            ++found;
            EXPECT_FALSE(cpu::rows_stand_alone(ctx, shape))
                << height << " rows × " << n << " × " << k << " "
                << to_string(dtype);
          }
        }
      }
    }
  }
  std::printf("  %d shapes have rows that depend on the others\n", found);
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (isa != nullptr && std::string_view(isa) == "AVX2") {
    EXPECT_GT(found, 0) << "the test has nothing to find";
  }
}

}  // namespace
}  // namespace troupe::kernels
