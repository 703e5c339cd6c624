#include <gtest/gtest.h>

#include "kernels/linear.h"
#include "kernels/numeric_probe.h"

namespace troupe::kernels {
namespace {

TEST(NumericProbe, IsTheSameEveryTimeAndOnEveryNumberOfThreads) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    if (!supports(compute)) {
      continue;
    }
    ExecContext one(1);
    ExecContext three(3);
    const std::uint64_t probe = numeric_probe(one, compute);
    EXPECT_EQ(numeric_probe(one, compute), probe) << to_string(compute);
    EXPECT_EQ(numeric_probe(three, compute), probe) << to_string(compute);
  }
}

TEST(NumericProbe, DiffersByTheTypeThatIsComputedIn) {
  if (!supports(DType::bf16)) {
    GTEST_SKIP() << "this processor has no bf16 products";
  }
  ExecContext ctx(1);
  EXPECT_NE(numeric_probe(ctx, DType::f32), numeric_probe(ctx, DType::bf16));
}

}  // namespace
}  // namespace troupe::kernels
