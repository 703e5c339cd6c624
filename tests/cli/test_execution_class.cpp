#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "actors/cli/execution_class.h"
#include "kernels/isa.h"
#include "kernels/numeric_probe.h"

namespace troupe::actors {
namespace {

using samplers::Accept;
using samplers::MethodKind;
using samplers::MethodOptions;

ExecutionConditions conditions() {
  return {.weights_hash = 1,
          .build = "a",
          .libraries = {{"x", "1.0"}, {"y", "2.0"}},
          .isa = "avx2/AVX2",
          .compute = DType::f32,
          .plan = "sequential"};
}

TEST(ExecutionClass, FollowsFromEachCondition) {
  const std::vector<std::function<void(ExecutionConditions&)>> changes = {
      [](auto& c) { c.weights_hash = 2; }, [](auto& c) { c.build = "b"; },
      [](auto& c) { c.libraries[1].version = "2.1"; },
      [](auto& c) { c.libraries[1].name = "z"; },
      [](auto& c) { c.libraries.pop_back(); },
      [](auto& c) { c.isa = "avx2/AVX3"; },
      [](auto& c) { c.isa = "avx512_core/AVX2"; }, [](auto& c) { c.probe = 1; },
      [](auto& c) { c.compute = DType::bf16; },
      [](auto& c) { c.plan = "stale"; }, [](auto& c) { c.mode = "free"; },
      // The same letters in other fields.
      [](auto& c) {
        c.libraries[0] = {"x1", ".0"};
      }};
  std::set<std::string> classes = {execution_class(conditions())};
  for (const auto& change : changes) {
    ExecutionConditions other = conditions();
    change(other);
    classes.insert(execution_class(other));
  }
  EXPECT_EQ(classes.size(), changes.size() + 1);
}

TEST(ExecutionClass, IsTheSameForTheSameConditions) {
  EXPECT_EQ(execution_class(conditions()), execution_class(conditions()));
  EXPECT_EQ(execution_class(conditions()).size(), 16U);
}

TEST(ExecutionConditions, NameBothInstructionSetsAndTheSources) {
  const ExecutionConditions here =
      execution_conditions(7, {.compute = DType::f32}, MethodOptions{});
  EXPECT_EQ(here.weights_hash, 7U);
  EXPECT_EQ(here.compute, DType::f32);
  EXPECT_EQ(here.probe, kernels::numeric_probe(DType::f32));
  EXPECT_EQ(here.isa,
            std::string(kernels::cpu_isa()) + "/" + kernels::vector_isa());
  EXPECT_NE(here.build.find(source_hash()), std::string::npos);
  EXPECT_EQ(source_hash().find_first_not_of("0123456789abcdef"),
            std::string::npos);
  EXPECT_EQ(source_hash().size(), 16U);
  std::set<std::string> names;
  for (const LibraryVersion& library : here.libraries) {
    EXPECT_FALSE(library.version.empty()) << library.name;
    names.insert(library.name);
  }
  EXPECT_TRUE(names.contains("oneDNN"));
  EXPECT_TRUE(names.contains("Highway"));
  for (const char* other : {"CAF", "libpng", "fmt"}) {
    EXPECT_FALSE(names.contains(other)) << other << " computes nothing";
  }
}

TEST(LogicalPlan, IsOneForAllExactMethods) {
  const std::string sequential = logical_plan({});
  MethodOptions options;
  for (const MethodKind kind :
       {MethodKind::batch, MethodKind::cfg, MethodKind::pipeline}) {
    options.kind = kind;
    options.num_segments = 3;
    EXPECT_EQ(logical_plan(options), sequential);
  }
  options = {};
  options.kind = MethodKind::picard;
  options.tolerance = 0;
  options.window_size = 5;
  EXPECT_EQ(logical_plan(options), sequential);
}

TEST(LogicalPlan, NamesTheModifiersOfAMethod) {
  MethodOptions options;
  options.kind = MethodKind::batch.with(samplers::Modifier::cache);
  options.cache_threshold = 0.2;
  EXPECT_EQ(logical_plan(options),
            "method=sequential+cache cache-threshold=0.2");
  options.cache_threshold = 0;
  EXPECT_EQ(logical_plan(options), logical_plan({}));
}

TEST(LogicalPlan, FollowsFromWhatAnApproximationIsMadeOf) {
  MethodOptions picard;
  picard.kind = MethodKind::picard;
  picard.tolerance = 0.01;
  MethodOptions stale;
  stale.kind = MethodKind::stale;
  stale.num_segments = 2;
  stale.age = 1;
  const std::vector<
      std::pair<MethodOptions, std::function<void(MethodOptions&)>>>
      changes = {{picard, [](auto& m) { m.tolerance = 0.02; }},
                 {picard, [](auto& m) { m.window_size += 1; }},
                 {picard, [](auto& m) { m.accept = Accept::settled; }},
                 {stale, [](auto& m) { m.num_segments = 3; }},
                 {stale,
                  [](auto& m) {
                    m.segment_speeds = {2, 1};
                  }},
                 {stale, [](auto& m) { m.age = 2; }},
                 {stale, [](auto& m) { m.ages = {2}; }},
                 {stale, [](auto& m) { m.stride = 2; }},
                 {stale, [](auto& m) { m.warmup_steps += 1; }},
                 {stale, [](auto& m) { m.final_fresh_steps += 1; }}};
  EXPECT_NE(logical_plan(picard), logical_plan({}));
  EXPECT_NE(logical_plan(stale), logical_plan({}));
  EXPECT_EQ(logical_plan({}, 4), "sequential ring-blocks=4");
  EXPECT_EQ(logical_plan(stale, 4), logical_plan(stale) + " ring-blocks=4");
  for (const auto& [from, change] : changes) {
    MethodOptions other = from;
    change(other);
    EXPECT_NE(logical_plan(other), logical_plan(from));
  }
}

}  // namespace
}  // namespace troupe::actors
