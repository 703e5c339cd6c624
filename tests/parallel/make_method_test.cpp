#include <gtest/gtest.h>

#include <limits>

#include "kernels/core/error.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

/// Expects an Errc::invalid_argument that names the option and says `part`.
void expect_refused(const MethodOptions& options, const std::string& option,
                    const std::string& part) {
  try {
    (void)make_method(options, Schedule(steps(10)));
    FAIL() << "accepted a wrong " << option;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_EQ(error.place(), option);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << error.what();
  }
}

TEST(MakeMethod, RefusesAWindowLargerThanTheRunAndNamesTheMaximum) {
  expect_refused({.kind = MethodKind::picard, .window_size = 11}, "window_size",
                 "got 11, expected 1 to 10");
}

TEST(MakeMethod, RefusesAnEmptyWindow) {
  expect_refused({.kind = MethodKind::picard, .window_size = 0}, "window_size",
                 "got 0");
}

TEST(MakeMethod, RefusesAToleranceThatIsNoNumberOrNegative) {
  for (const double bad : {-0.1, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    expect_refused(
        {.kind = MethodKind::picard, .window_size = 2, .tolerance = bad},
        "tolerance", "expected 0");
  }
}

TEST(MakeMethod, RefusesNoSegments) {
  for (const MethodKind kind : {MethodKind::pipeline, MethodKind::stale}) {
    expect_refused({.kind = kind, .num_segments = 0}, "num_segments", "got 0");
  }
}

TEST(MakeMethod, RefusesNegativeAges) {
  expect_refused({.kind = MethodKind::stale, .age = -1}, "ages", "got -1");
  expect_refused(
      {.kind = MethodKind::stale, .num_segments = 3, .ages = {1, -2}}, "ages",
      "got -2");
}

TEST(MakeMethod, RefusesAWrongNumberOfAges) {
  expect_refused({.kind = MethodKind::stale, .num_segments = 3, .ages = {1}},
                 "ages", "got 1, expected 2");
}

TEST(MakeMethod, RefusesAStrideOtherThanOneOrTwo) {
  expect_refused({.kind = MethodKind::stale, .stride = 3}, "stride", "got 3");
}

TEST(MakeMethod, RefusesAnOnionOfStrideTwo) {
  expect_refused(
      {.kind = MethodKind::stale, .cut = CutShape::onion, .stride = 2},
      "stride", "an onion has one executor");
}

TEST(MakeMethod, RefusesMoreFreshStepsThanThereAre) {
  expect_refused({.kind = MethodKind::stale, .warmup_steps = 11},
                 "warmup_steps", "got 11, expected 0 to 10");
  expect_refused({.kind = MethodKind::stale, .warmup_steps = -1},
                 "warmup_steps", "got -1");
  expect_refused({.kind = MethodKind::stale, .final_fresh_steps = 11},
                 "final_fresh_steps", "got 11");
}

TEST(MakeMethod, TakesAOneStepRunOfEveryMethod) {
  for (const MethodKind kind :
       {MethodKind::sequential, MethodKind::batch, MethodKind::cfg,
        MethodKind::picard, MethodKind::pipeline, MethodKind::stale}) {
    Bench bench(steps(1), Shape{1, 3, 5}, 2);
    const Tensor expected = bench.run({.kind = MethodKind::sequential}).latents;
    EXPECT_TRUE(bytes_equal(bench.run({.kind = kind, .window_size = 1}).latents,
                            expected));
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
