#include <gtest/gtest.h>

#include "config/method_plan.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::MethodKind;

MethodKind chosen(std::uint64_t samples, int workers, bool is_guided) {
  Config config;
  config.num_workers = workers;
  return make_plan(config, {.num_samples = samples,
                            .is_guided = is_guided,
                            .num_blocks = 4,
                            .num_cores = 4})
      .method.kind;
}

TEST(MethodPlan, TakesBatchWhenThereAreAsManySamplesAsWorkers) {
  EXPECT_EQ(chosen(4, 4, true), MethodKind::batch);
  EXPECT_EQ(chosen(9, 2, false), MethodKind::batch);
}

TEST(MethodPlan, SharesTheBranchesOfTooFewSamples) {
  EXPECT_EQ(chosen(1, 2, true), MethodKind::cfg);
  EXPECT_EQ(chosen(2, 4, true), MethodKind::cfg);
}

TEST(MethodPlan, KeepsOneSampleWithoutBranchesOnOneWorker) {
  EXPECT_EQ(chosen(1, 2, false), MethodKind::sequential);
  EXPECT_EQ(chosen(1, 1, true), MethodKind::sequential);
}

/// Of a job that others may join: `own` workers here, `others` there.
PlanInputs joined(std::uint64_t samples, WorkerCount others) {
  return {.num_samples = samples,
          .is_guided = true,
          .num_blocks = 4,
          .num_cores = 4,
          .others = others};
}

TEST(MethodPlan, CountsTheWorkersOfOtherProcesses) {
  Config config;
  config.num_workers = 1;
  const auto kind = [&](const PlanInputs& inputs) {
    return make_plan(config, inputs).method.kind;
  };
  EXPECT_EQ(kind(joined(1, {})), MethodKind::sequential);
  EXPECT_EQ(kind(joined(1, {1, 0})), MethodKind::cfg);
  EXPECT_EQ(kind(joined(3, {2, 0})), MethodKind::batch);
  EXPECT_EQ(kind(joined(3, {3, 0})), MethodKind::cfg);
  // A sample stays with devices of one kind.
  EXPECT_EQ(kind(joined(1, {0, 1})), MethodKind::sequential);
  EXPECT_EQ(kind(joined(1, {8, 2})), MethodKind::cfg);
  // The cores of a process that computes nothing are no workers.
  config.num_workers = 0;
  PlanInputs directs = joined(1, {1, 0});
  EXPECT_EQ(kind(directs), MethodKind::cfg);
  directs.only_others = true;
  EXPECT_EQ(kind(directs), MethodKind::sequential);
  EXPECT_EQ(make_plan(config, joined(3, {2, 0})).num_workers, 4)
      << "of this process";
}

TEST(MethodPlan, IsABatchWhereOthersMayTakeImages) {
  Config config;
  config.num_workers = 1;
  PlanInputs inputs = joined(3, {});
  EXPECT_EQ(make_plan(config, inputs).method.kind, MethodKind::batch);
  inputs.others.reset();
  EXPECT_EQ(make_plan(config, inputs).method.kind, MethodKind::sequential);
}

TEST(MethodPlan, SaysWhatMoreWorkersChange) {
  Config config;
  config.num_workers = 1;
  const auto more = [&](const PlanInputs& inputs) {
    return method_with_more_workers(config, inputs);
  };
  EXPECT_EQ(more(joined(1, {})), MethodKind::cfg);
  EXPECT_EQ(more(joined(3, {})), MethodKind::cfg);
  EXPECT_FALSE(more(joined(1, {1, 0}))) << "it is cfg already";
  PlanInputs plain = joined(3, {});
  plain.is_guided = false;
  EXPECT_FALSE(more(plain));
  PlanInputs closed = joined(1, {});
  closed.others.reset();
  EXPECT_FALSE(more(closed));
  config.method.kind = MethodKind::sequential;
  EXPECT_FALSE(more(joined(1, {})));
}

TEST(MethodPlan, HasAsManyWorkersAsThreadsLeaveRoomFor) {
  Config config;
  const auto own = [&] { return own_workers(config, {.num_cores = 4}); };
  EXPECT_EQ(own().cpu, 4);
  config.num_threads = 2;
  EXPECT_EQ(own().cpu, 2);
  config.num_threads = 8;
  EXPECT_EQ(own().cpu, 1);
  config.num_workers = 3;
  EXPECT_EQ(own().cpu, 3);
  const WorkerCount mixed = own_workers(
      {}, {.num_cores = 4, .devices = {DeviceKind::cuda, DeviceKind::cpu}});
  EXPECT_EQ(mixed.gpu, 1);
  EXPECT_EQ(mixed.cpu, 1);
}

TEST(MethodPlan, TakesTheCheaperCutWhereTheUserLeavesItOpen) {
  using samplers::CutShape;
  Config config;
  int asked = 0;
  const auto cut = [&] {
    return make_plan(config, {.num_blocks = 8,
                              .most_onion_parts = 4,
                              .cheaper_cut =
                                  [&](const samplers::MethodOptions& options) {
                                    ++asked;
                                    EXPECT_EQ(options.num_segments, 3);
                                    return CutShape::onion;
                                  }})
        .method.cut;
  };
  EXPECT_EQ(cut(), CutShape::chain) << "the network is whole";
  config.method.num_segments = 3;
  config.method.preset = "asyncdiff";
  EXPECT_EQ(cut(), CutShape::chain) << "AsyncDiff's";
  config.method.preset.clear();
  EXPECT_EQ(asked, 0);
  for (const MethodKind kind : {MethodKind::pipeline, MethodKind::stale}) {
    config.method.kind = kind;
    EXPECT_EQ(cut(), CutShape::onion);
    config.method.cut = CutShape::chain;
    EXPECT_EQ(cut(), CutShape::chain);
    config.method.cut.reset();
  }
  EXPECT_EQ(asked, 2);
}

TEST(MethodPlan, ReadsModifiersBehindTheMethod) {
  const MethodKind cached = MethodKind::draft.with(samplers::Modifier::cache);
  EXPECT_EQ(parse_method("--method", "draft+cache"), cached);
  EXPECT_EQ(parse_method("--method", "draft"), MethodKind::draft);
  EXPECT_EQ(find_method("draft+cache"), cached);
  for (const auto& [text, said] : {std::pair{"draft+cash", "cache"},
                                   {"draft+", "cache"},
                                   {"cfg+cache", "sequential, batch"},
                                   {"auto+cache", "sequential, batch"},
                                   {"drafts+cache", "draft"}}) {
    EXPECT_EQ(find_method(text), std::nullopt);
    try {
      (void)parse_method("--method", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.place(), "--method");
      const std::string message = error.what();
      EXPECT_NE(message.find(said), std::string::npos) << message;
    }
  }
}

TEST(MethodPlan, TakesTheThresholdOfCacheWithCacheAlone) {
  Config config;
  config.method.kind = MethodKind::sequential;
  config.method.cache_threshold = 0.2;
  EXPECT_THROW((void)make_plan(config, {}), Error);
  config.method.kind = MethodKind::batch.with(samplers::Modifier::cache);
  EXPECT_EQ(make_plan(config, {}).method.cache_threshold, 0.2);
}

TEST(MethodPlan, RefusesACacheThatNothingServes) {
  const auto place_with = [](const PlanInputs& inputs, int shards) {
    Config config;
    config.method.kind = MethodKind::sequential.with(samplers::Modifier::cache);
    config.num_shards = shards;
    try {
      (void)make_plan(config, inputs);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      return error.place();
    }
  };
  EXPECT_EQ(place_with({}, 1), "");
  EXPECT_EQ(place_with({}, 2), "--shards");
  EXPECT_EQ(place_with({.can_leave_out_blocks = false}, 1), "--method");
  const std::vector<DeviceKind> devices = {DeviceKind::cuda};
  EXPECT_EQ(place_with({.devices = devices}, 1), "--device");
  // Of a job that is joined, too.
  samplers::MethodOptions theirs;
  theirs.kind = MethodKind::batch.with(samplers::Modifier::cache);
  try {
    (void)make_plan({}, {.method = theirs, .devices = devices});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.place(), "--device");
  }
}

TEST(MethodPlan, RefusesOnionsThatThereAreNot) {
  Config config;
  config.method.kind = MethodKind::pipeline;
  config.method.cut = samplers::CutShape::onion;
  config.method.num_segments = 4;
  const auto place_with = [&](int most) {
    try {
      (void)make_plan(config, {.num_blocks = 8, .most_onion_parts = most});
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::invalid_argument);
      return error.place();
    }
  };
  EXPECT_EQ(place_with(4), "");
  EXPECT_EQ(place_with(3), "--segments");
  EXPECT_EQ(place_with(0), "--cut");
  // Left open, there are as many as there can be.
  config.method.num_segments.reset();
  config.num_workers = 6;
  EXPECT_EQ(make_plan(config, {.num_blocks = 8, .most_onion_parts = 3})
                .method.num_segments,
            3);
}

TEST(MethodPlan, KeepsTheDefaultWindowWithinTheCallsOnly) {
  Config config;
  config.method.kind = MethodKind::picard;
  EXPECT_EQ(make_plan(config, {.num_calls = 1}).method.window_size, 1);
  EXPECT_EQ(make_plan(config, {.num_calls = 50}).method.window_size, 2);
  EXPECT_EQ(
      make_plan(config, {.num_calls = 50, .num_cores = 16}).method.window_size,
      8);
  config.num_workers = 4;
  EXPECT_EQ(make_plan(config, {.num_calls = 50}).method.window_size, 4);
  config.method.window_size = 9;  // refused by the method, not changed here
  EXPECT_EQ(make_plan(config, {.num_calls = 3}).method.window_size, 9);
}

TEST(MethodPlan, TakesPicardsChosenSettingsWhereNoneIsNamed) {
  Config config;
  config.method.kind = MethodKind::picard;
  const auto options = [&] {
    return make_plan(config, {.num_calls = 50}).method;
  };
  EXPECT_EQ(options().accept, samplers::Accept::settled);
  EXPECT_GT(options().tolerance, 0);
  EXPECT_EQ(options().initial_guess, samplers::InitialGuess::linear_x0);
  EXPECT_EQ(options().carry, samplers::Carry::deviation);
  config.method.window_size = 3;  // the others stay
  EXPECT_EQ(options().window_size, 3);
  EXPECT_EQ(options().accept, samplers::Accept::settled);
  config.method.carry = samplers::Carry::coefficient;
  EXPECT_EQ(options().carry, samplers::Carry::coefficient);
}

TEST(MethodPlan, TakesTheGuessAndCarryOfPicardsAcceptRule) {
  Config config;
  config.method.kind = MethodKind::picard;
  config.method.tolerance = 0.03;
  const auto options = [&] {
    return make_plan(config, {.num_calls = 50}).method;
  };
  EXPECT_EQ(options().tolerance, 0.03);
  EXPECT_EQ(options().accept, samplers::Accept::settled);
  EXPECT_EQ(options().initial_guess, samplers::InitialGuess::linear_x0);
  config.method.accept = samplers::Accept::first_failing;
  EXPECT_EQ(options().tolerance, 0.03);
  EXPECT_EQ(options().accept, samplers::Accept::first_failing);
  EXPECT_EQ(options().initial_guess, samplers::InitialGuess::last_point);
  EXPECT_EQ(options().carry, samplers::Carry::identity);
  config.method.tolerance.reset();
  config.method.accept = samplers::Accept::first_failing;
  EXPECT_EQ(options().tolerance, 0) << "ParaDiGMS's rule has no default";
}

TEST(MethodPlan, DraftsTheLatentsOfAStaleRunUnlessItsStrideIsTwo) {
  Config config;
  config.method.kind = MethodKind::stale;
  const auto stale_at = [&config] {
    return make_plan(config, {.num_blocks = 8, .num_calls = 20})
        .method.stale_at;
  };
  EXPECT_EQ(stale_at(), samplers::StaleAt::latents);
  config.method.stride = 2;
  EXPECT_EQ(stale_at(), samplers::StaleAt::cuts);
  config.method.stride.reset();
  config.method.preset = "asyncdiff";
  EXPECT_EQ(stale_at(), samplers::StaleAt::cuts);
}

TEST(MethodPlan, BoundsTheAgeOfStaleLatentsByTheLengthOfTheRun) {
  Config config;
  config.method.kind = MethodKind::stale;
  const auto ages = [&config](int calls) {
    return make_plan(config, {.num_blocks = 8, .num_calls = calls}).method.ages;
  };
  using Ages = std::vector<int>;
  const auto segments = [&config](int calls) {
    return make_plan(config, {.num_blocks = 8, .num_calls = calls})
        .method.num_segments;
  };
  config.num_workers = 4;
  EXPECT_EQ(ages(20), Ages()) << "each cut lags";
  EXPECT_EQ(segments(20), 2);
  EXPECT_EQ(segments(32), 3);
  EXPECT_EQ(segments(50), 4);
  EXPECT_EQ(segments(0), 4) << "the length is not known";
  config.method.segment_speeds = {1, 1, 1, 1};
  EXPECT_EQ(ages(20), (Ages{1, 0, 0}));
  config.method.segment_speeds.clear();
  config.method.num_segments = 4;
  EXPECT_EQ(ages(20), (Ages{1, 0, 0}));
  EXPECT_EQ(ages(32), (Ages{1, 1, 0}));
  EXPECT_EQ(ages(50), Ages()) << "one for each cut";
  config.method.num_segments = 3;
  EXPECT_EQ(ages(20), (Ages{1, 0}));
  config.method.ages = {1};
  EXPECT_EQ(ages(20), Ages()) << "one for each cut, as the user says";
  config.method.ages.clear();
  config.method.stale_at = samplers::StaleAt::cuts;
  EXPECT_EQ(ages(20), Ages()) << "AsyncDiff's ages";
}

TEST(MethodPlan, EndsARunOfStaleCutsWithFreshStepsUnlessAPresetSaysNone) {
  Config config;
  config.method.kind = MethodKind::stale;
  config.method.stale_at = samplers::StaleAt::cuts;
  const auto fresh = [&](int calls) {
    return make_plan(config, {.num_blocks = 8, .num_calls = calls})
        .method.final_fresh_steps;
  };
  EXPECT_EQ(fresh(20), 2);
  EXPECT_EQ(fresh(50), 5);
  EXPECT_EQ(fresh(1), 0);
  config.method.final_fresh_steps = 0;
  EXPECT_EQ(fresh(50), 0) << "a recipe names it, whatever the default is";
  config.method.final_fresh_steps.reset();
  config.method.stale_at.reset();
  EXPECT_EQ(fresh(50), 0) << "drafts need none";
  config.method.kind.reset();
  config.method.preset = "asyncdiff";
  EXPECT_EQ(fresh(50), 0) << "AsyncDiff's";
}

TEST(MethodPlan, GivesEachOfBenchsMethodsItsOwnOptions) {
  Config config;
  config.methods = {MethodKind::picard, MethodKind::stale, MethodKind::batch};
  config.method.kind = config.methods.front();
  config.method.window_size = 3;
  config.method.ages = {2};
  config.method.tolerance = 0.1 + 0.2;
  const std::vector<Config> each = configs_by_method(config);
  ASSERT_EQ(each.size(), 3U);
  samplers::MethodChoices picard;
  picard.kind = MethodKind::picard;
  picard.window_size = 3;
  picard.tolerance = 0.1 + 0.2;
  EXPECT_EQ(each[0].method, picard);
  samplers::MethodChoices stale;
  stale.kind = MethodKind::stale;
  stale.ages = {2};
  EXPECT_EQ(each[1].method, stale);
  samplers::MethodChoices batch;
  batch.kind = MethodKind::batch;
  EXPECT_EQ(each[2].method, batch);
  EXPECT_TRUE(each[2].methods.empty());
}

TEST(MethodPlan, RefusesToShareBranchesThatAreNotThere) {
  Config config;
  config.method.kind = MethodKind::cfg;
  EXPECT_EQ(make_plan(config, {.is_guided = true}).method.kind,
            MethodKind::cfg);
  EXPECT_THROW((void)make_plan(config, {.is_guided = false}), Error);
}

TEST(MethodPlan, NamesThePlaceOfAnOptionOfAnotherMethod) {
  Config config;
  config.method.kind = MethodKind::sequential;
  config.method.window_size = 2;
  const auto place = [&] {
    try {
      (void)make_plan(config, {});
    } catch (const Error& error) {
      return error.place();
    }
    return std::string("no error");
  };
  EXPECT_EQ(place(), "--window");
  config.places["window"] = {Source::environment, "TROUPE_WINDOW"};
  EXPECT_EQ(place(), "TROUPE_WINDOW");
}

TEST(MethodPlan, LeavesWorkersIdleRatherThanApproximate) {
  EXPECT_EQ(chosen(2, 4, false), MethodKind::batch);
}

Plan on_devices(const Config& config, std::uint64_t samples,
                const std::vector<DeviceKind>& devices) {
  return make_plan(config, {.num_samples = samples,
                            .is_guided = true,
                            .num_blocks = 4,
                            .num_cores = 8,
                            .devices = devices});
}

constexpr DeviceKind kGpu = DeviceKind::cuda;
constexpr DeviceKind kCpu = DeviceKind::cpu;

TEST(MethodPlan, GivesEveryGpuOneWorker) {
  const Plan plan = on_devices({}, 16, {kGpu, kGpu});
  EXPECT_EQ(plan.method.kind, MethodKind::batch);
  EXPECT_EQ(plan.device_workers, (std::vector<int>{1, 1}));
  EXPECT_EQ(plan.num_workers, 2);
  EXPECT_EQ(plan.num_threads, 1) << "nobody computes on the CPU";
}

TEST(MethodPlan, JoinsSamplesOnOneGpuAndSharesBranchesBetweenTwo) {
  EXPECT_EQ(on_devices({}, 2, {kGpu}).method.kind, MethodKind::batch);
  EXPECT_EQ(on_devices({}, 1, {kGpu}).method.kind, MethodKind::sequential);
  EXPECT_EQ(on_devices({}, 1, {kGpu, kGpu}).method.kind, MethodKind::cfg);
  // The branches of a sample cannot lie on devices of two kinds.
  EXPECT_EQ(on_devices({}, 1, {kGpu, kCpu}).method.kind,
            MethodKind::sequential);
}

TEST(MethodPlan, GivesTheCpuBesideGpusTheCoresThatAreLeft) {
  const Plan plan = on_devices({}, 16, {kGpu, kGpu, kCpu});
  EXPECT_EQ(plan.device_workers, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(plan.num_threads, 6);
}

TEST(MethodPlan, DealsOutTheWorkersThatWereAskedFor) {
  Config config;
  config.num_workers = 5;
  config.num_threads = 2;
  const Plan plan = on_devices(config, 16, {kGpu, kGpu, kCpu});
  EXPECT_EQ(plan.device_workers, (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(plan.num_threads, 2);
  config.num_workers = 1;
  EXPECT_EQ(on_devices(config, 16, {kGpu, kCpu}).device_workers,
            (std::vector<int>{1, 0}));
}

TEST(MethodPlan, CutsANetworkOnceForEachGpu) {
  Config config;
  config.method.kind = MethodKind::pipeline;
  EXPECT_EQ(on_devices(config, 4, {kGpu, kGpu, kGpu}).method.num_segments, 3);
  EXPECT_EQ(on_devices(config, 4, {kGpu}).method.num_segments, 2);
}

TEST(MethodPlan, CutsANetworkOnceForEachSpeed) {
  Config config;
  config.method.kind = MethodKind::stale;
  config.method.segment_speeds = {1, 0.5, 0.25};
  const samplers::MethodOptions method = on_devices(config, 4, {kCpu}).method;
  EXPECT_EQ(method.num_segments, 3);
  EXPECT_EQ(method.segment_speeds, config.method.segment_speeds);
  config.method.num_segments = 2;
  EXPECT_THROW((void)on_devices(config, 4, {kCpu}), Error);
}

}  // namespace
}  // namespace troupe::config
