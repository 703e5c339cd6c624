// A network of two streams on a GPU: called, recorded and played back, whole
// and in two parts.

#include "tests/cuda/support.h"
#include "tests/models/helpers.h"
#include "tests/models/pixart_fixtures.h"
#include "tests/models/two_streams.h"

namespace troupe::models {
namespace {

using kernels::CudaTest;
using kernels::kGpu;
using two_streams::Description;

class TwoStreamsOnGpu : public CudaTest {};

TEST_F(TwoStreamsOnGpu, AgreesWithTheCpuAndChangesNoBitWhereItIsCut) {
  const Description description({.head_dim = 24});
  ExecContext cpu;
  ExecContext gpu(1, kGpu);
  ShardContext whole;
  const auto there = load_random(cpu, description);
  const auto here = load_random(gpu, description, DType::bf16);
  const auto rows_for = [](ExecContext& ctx, const Denoiser& network) {
    Rows rows;
    for (int i = 0; i < 2; ++i) {
      rows.add(ctx, network, latents_of_row(i, {4, 6, 5}), 900.0 - 100.0 * i,
               prompt(static_cast<std::uint64_t>(i), 7));
    }
    return rows;
  };
  const auto want = predict(cpu, *there, rows_for(cpu, *there));
  const Rows rows = rows_for(gpu, *here);
  const auto first = predict(gpu, *here, rows);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LE(relative_error(first[i], want[i]), 2e-2);
  }
  for (int pass = 0; pass < 3; ++pass) {
    expect_same(predict(gpu, *here, rows), first);
    for (int cut = 1; cut < 4; ++cut) {
      std::vector<Boundary> boundaries(2);
      auto outputs = outputs_for(*here, rows.latents);
      here->embed(gpu, whole, rows.batch(), boundaries);
      here->run_blocks(gpu, whole, rows.batch(), 0, cut, boundaries);
      here->run_blocks(gpu, whole, rows.batch(), cut, 4, boundaries);
      here->finish(gpu, whole, rows.batch(), boundaries, outputs);
      expect_same(outputs, first);
    }
  }
}

}  // namespace
}  // namespace troupe::models
