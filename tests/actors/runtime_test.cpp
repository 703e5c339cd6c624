#include "actors/runtime.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "tests/actors/observed_job.h"
#include "tests/actors/plain_loop.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::Solver;

TEST(RunJob, GivesTheSameBytesByEveryExactMethod) {
  const std::vector<MethodOptions> methods{
      {.kind = MethodKind::batch},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::pipeline, .num_segments = 2},
      {.kind = MethodKind::pipeline, .num_segments = 4},
      {.kind = MethodKind::pipeline, .cut = samplers::CutShape::onion},
      {.kind = MethodKind::pipeline,
       .num_segments = 3,
       .cut = samplers::CutShape::onion},
      {.kind = MethodKind::picard, .window_size = 3},
      {.kind = MethodKind::picard, .window_size = 8},
      {.kind = MethodKind::stale, .num_segments = 2, .age = 0},
      {.kind = MethodKind::stale, .cut = samplers::CutShape::onion, .age = 0}};
  for (const Solver solver :
       {Solver::ddim, Solver::ddpm, Solver::dpmpp, Solver::euler,
        Solver::euler_ancestral, Solver::heun, Solver::flow_euler,
        Solver::unipc, Solver::pndm}) {
    const auto expected = sequential(solver);
    ASSERT_EQ(expected.size(), 5U);
    for (const MethodOptions& method : methods) {
      for (const auto& [workers, threads] :
           {std::pair{1, 2}, std::pair{2, 1}, std::pair{3, 2}}) {
        ObservedJob job(method, solver);
        job.spec.workers = cpu_workers(workers, threads);
        const JobResult result = job.run();
        EXPECT_FALSE(result.failure) << result.failure->message;
        expect_same(expected, job.seen.latents,
                    "solver " + std::string(solver->name) + ", method " +
                        std::string(method.kind->name) + ", " +
                        std::to_string(workers) + " workers");
      }
    }
  }
}

TEST(RunJob, GivesTheSameBytesTwice) {
  for (const MethodOptions& method : every_method()) {
    ObservedJob first(method);
    ObservedJob second(method);
    first.spec.workers = cpu_workers(2);
    second.spec.workers = cpu_workers(3);
    (void)first.run();
    (void)second.run();
    expect_same(first.seen.latents, second.seen.latents, "again");
  }
}

/// Of 2 to 5 parts, with values of several ages.
TEST(RunJob, GivesStaleOnionsThePlainLoopsBytes) {
  for (int parts = 2; parts <= 5; ++parts) {
    MethodOptions method{.kind = MethodKind::stale,
                         .num_segments = parts,
                         .cut = samplers::CutShape::onion,
                         .warmup_steps = 2};
    for (int cut = 0; cut + 1 < parts; ++cut) {
      method.ages.push_back(1 + cut % 2);
    }
    ObservedJob plain(method);
    samplers::TaskRunner runner(plain.schedule, plain.evaluator, plain.noise,
                                method);
    std::map<std::uint64_t, Tensor> expected;
    for (std::uint64_t index = 0; index < 5; ++index) {
      expected[index] =
          actors::plain_loop(plain.schedule, plain.noise, runner,
                             plain.evaluator.latent_shape(), index, method);
    }
    EXPECT_FALSE(bytes_equal(expected.at(0), sequential().at(0)));
    for (const int workers : {1, 2, parts}) {
      ObservedJob job(method);
      job.spec.workers = cpu_workers(workers);
      EXPECT_FALSE(job.run().failure);
      expect_same(expected, job.seen.latents,
                  std::to_string(parts) + " parts, " + std::to_string(workers) +
                      " workers");
    }
  }
}

TEST(RunJob, GivesASampleAloneTheBytesItHasAmongOthers) {
  for (const MethodOptions& method : every_method()) {
    ObservedJob together(method);
    together.spec.workers = cpu_workers(2);
    (void)together.run();
    ASSERT_EQ(together.seen.latents.size(), 5U);
    for (std::uint64_t index = 0; index < 5; ++index) {
      ObservedJob job(method);
      job.spec.begin = index;
      job.spec.end = index + 1;
      (void)job.run();
      expect_same({{index, together.seen.latents.at(index)}}, job.seen.latents,
                  "alone");
    }
  }
}

TEST(RunJob, PacksRowsOfSeveralSamplesWithoutChangingThem) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(1, 1, 3);
  (void)job.run();
  expect_same(sequential(), job.seen.latents, "packed");
  EXPECT_EQ(job.evaluator.most_rows, 3);
}

TEST(RunJob, LeavesOutWhatIsToBeSkipped) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.skip = {1, 3};
  const JobResult result = job.run();
  EXPECT_EQ(result.samples.size(), 3U);
  EXPECT_EQ(job.seen.latents.size(), 3U);
  EXPECT_FALSE(job.seen.latents.contains(3));
}

TEST(RunJob, DecodesAndCounts) {
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  const JobResult result = job.run();
  EXPECT_EQ(job.seen.pixels.size(), 5U);
  EXPECT_EQ(result.count(SampleStatus::done), 5U);
  EXPECT_EQ(result.nfe, 5 * 8);
  EXPECT_EQ(result.rounds, 8);
  EXPECT_GT(result.compute_seconds, 0.0);
  EXPECT_EQ(job.seen.last.calls_done, 5 * 8);
  EXPECT_EQ(job.seen.last.samples_done, 5U);
}

TEST(RunJob, ShowsPreviewsAndSpansWhenAsked) {
  for (const auto kind : {MethodKind::batch, MethodKind::picard}) {
    ObservedJob job({.kind = kind, .window_size = 2});
    job.spec.preview_every = 4;
    job.spec.trace = true;
    (void)job.run();
    if (is_one_process()) {
      EXPECT_EQ(job.seen.previews.size(), 2U * 5U);
    }
    for (const Preview& preview : job.seen.previews) {
      EXPECT_EQ(preview.latents.shape(), job.evaluator.latent_shape());
    }
    EXPECT_GE(job.seen.passes.size(), 20U);
  }
  ObservedJob quiet({.kind = MethodKind::batch});
  (void)quiet.run();
  EXPECT_TRUE(quiet.seen.previews.empty());
  EXPECT_TRUE(quiet.seen.passes.empty());
}

/// Of each sample in their order. Of several workers, one whose result comes
/// after a later one's is left out, as is a preview that is late.
TEST(RunJob, ShowsEarlyResultsBeforeTheResult) {
  constexpr int kCount = 3;
  for (const auto kind : {MethodKind::chords, MethodKind::parareal}) {
    const auto with = [&](int count) {
      return ObservedJob({.kind = kind,
                          .window_size = 4,
                          .num_outputs = count,
                          .iterations = count,
                          .has_early_results = count == kCount});
    };
    std::vector<std::map<std::uint64_t, Tensor>> fewer;
    for (int count = 1; count < kCount; ++count) {
      ObservedJob one = with(count);
      ASSERT_FALSE(one.run().failure);
      fewer.push_back(one.seen.latents);
    }
    for (const int workers : {1, 2}) {
      ObservedJob job = with(kCount);
      job.spec.workers = cpu_workers(workers);
      job.spec.preview_every = 1;
      ASSERT_FALSE(job.run().failure);
      std::map<std::uint64_t, std::size_t> next;
      std::size_t shown = 0;
      for (const Preview& preview : job.seen.previews) {
        const std::uint64_t index = preview.sample_index;
        if (preview.call < job.schedule.num_model_calls()) {
          EXPECT_EQ(next[index], 0U) << "a step after an early result";
          continue;
        }
        ++shown;
        while (next[index] < fewer.size() &&
               !bytes_equal(preview.latents, fewer[next[index]].at(index))) {
          ++next[index];
        }
        EXPECT_LT(next[index]++, fewer.size()) << kind->name;
      }
      if (workers == 1 && is_one_process()) {
        EXPECT_EQ(shown, 5 * fewer.size()) << kind->name;
      }
    }
  }
}

TEST(RunJob, ShowsTheLatentsAfterEveryCall) {
  ObservedJob plain({.kind = MethodKind::sequential});
  plain.spec.trajectory = true;
  ASSERT_FALSE(plain.run().failure);
  ASSERT_EQ(plain.seen.points.size(), 5U);
  for (const auto& [index, points] : plain.seen.points) {
    ASSERT_EQ(points.size(), 9U) << "sample " << index;
    EXPECT_TRUE(bytes_equal(points.at(8), plain.seen.latents.at(index)));
  }
  for (const MethodOptions& method :
       {MethodOptions{.kind = MethodKind::picard, .window_size = 3},
        MethodOptions{.kind = MethodKind::pipeline, .num_segments = 2}}) {
    ObservedJob job(method);
    job.spec.workers = cpu_workers(2);
    job.spec.trajectory = true;
    ASSERT_FALSE(job.run().failure);
    for (const auto& [index, points] : plain.seen.points) {
      expect_same({{0, points.at(0)}, {4, points.at(4)}},
                  {{0, job.seen.points.at(index).at(0)},
                   {4, job.seen.points.at(index).at(4)}},
                  "trajectory");
    }
  }
  ObservedJob quiet;
  (void)quiet.run();
  EXPECT_TRUE(quiet.seen.points.empty());
}

TEST(RunJob, StopsBetweenBlocksAndKeepsFinishedSamples) {
  ObservedJob job({.kind = MethodKind::batch});
  std::stop_source stop;
  std::atomic<bool> endless{false};
  job.spec.stop = stop.get_token();
  job.spec.end = 50;
  // After the first sample every forward lasts until it is interrupted.
  job.evaluator.before_forward = [&](ExecContext& ctx) {
    while (endless) {
      ctx.tick();
      std::this_thread::yield();
    }
  };
  job.seen.after_sample = [&] {
    endless = true;
    stop.request_stop();
  };
  const JobResult result = job.run();
  EXPECT_TRUE(result.stopped);
  EXPECT_FALSE(result.failure);
  EXPECT_GE(result.count(SampleStatus::done), 1U);
  EXPECT_GE(result.count(SampleStatus::unfinished), 1U);
  EXPECT_EQ(result.samples.size(), 50U);
  const auto expected = sequential();
  EXPECT_TRUE(bytes_equal(job.seen.latents.at(0), expected.at(0)));
}

TEST(RunJob, RefusesAnEmptyRangeNoWorkersAndBadOptions) {
  ObservedJob empty({.kind = MethodKind::batch});
  empty.spec.end = 0;
  EXPECT_THROW((void)empty.run(), Error);
  ObservedJob nobody({.kind = MethodKind::batch});
  nobody.spec.workers = cpu_workers(0);
  EXPECT_THROW((void)nobody.run(), Error);
  ObservedJob window({.kind = MethodKind::picard, .window_size = 0});
  EXPECT_THROW((void)window.run(), Error);
}

}  // namespace
}  // namespace troupe::actors
