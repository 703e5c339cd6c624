#include <gtest/gtest.h>
#include <omp.h>

#include <thread>

#include "kernels/linear.h"
#include "kernels/numeric_probe.h"

namespace troupe::kernels {
namespace {

/// On a thread that may use so many of OpenMP's.
std::uint64_t probe_beside(int openmp_threads, DType compute) {
  std::uint64_t probe = 0;
  std::thread([&] {
    omp_set_num_threads(openmp_threads);
    probe = numeric_probe(compute);
    EXPECT_EQ(omp_get_max_threads(), openmp_threads);
  }).join();
  return probe;
}

TEST(NumericProbe, IsTheSameEveryTimeWhateverTheCallerMayUse) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    if (!supports(compute)) {
      continue;
    }
    const std::uint64_t probe = numeric_probe(compute);
    EXPECT_EQ(probe_beside(1, compute), probe) << to_string(compute);
    EXPECT_EQ(probe_beside(4, compute), probe) << to_string(compute);
  }
}

TEST(NumericProbe, DiffersByTheTypeThatIsComputedIn) {
  if (!supports(DType::bf16)) {
    GTEST_SKIP() << "this processor has no bf16 products";
  }
  EXPECT_NE(numeric_probe(DType::f32), numeric_probe(DType::bf16));
}

}  // namespace
}  // namespace troupe::kernels
