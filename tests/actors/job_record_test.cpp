#include "actors/job_record.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "actors/job_parts.h"
#include "actors/runtime.h"
#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "models/files/weight_source.h"
#include "tests/actors/company_suite.h"
#include "tests/actors/job_support.h"
#include "tests/actors/random_records.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;
using samplers::ScheduleOptions;
using samplers::Solver;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<MethodOptions> record_methods() {
  return {{.kind = MethodKind::sequential},
          {.kind = MethodKind::batch},
          {.kind = MethodKind::cfg},
          {.kind = MethodKind::picard, .window_size = 3, .tolerance = 0.01},
          {.kind = MethodKind::pipeline, .num_segments = 2},
          {.kind = MethodKind::stale, .num_segments = 2},
          {.kind = MethodKind::stale, .num_segments = 2, .stride = 2}};
}

std::vector<ScheduleOptions> record_schedules() {
  std::vector<ScheduleOptions> all;
  for (const Solver solver : samplers::solver_table()) {
    ScheduleOptions options;
    options.solver = solver;
    options.num_inference_steps = 5;
    all.push_back(options);
  }
  all[0].eta = 0.5;
  all[1].variance_type = samplers::VarianceType::learned_range;
  return all;
}

TEST(JobRecord, TravelsWithEveryBitOfEveryField) {
  constexpr std::uint64_t kRecords = 2000;
  for (std::uint64_t seed = 0; seed < kRecords; ++seed) {
    JobRecord job;
    RandomFields random(seed);
    visit_fields(random, job);
    const std::string bytes = wire::encode(job);
    const JobRecord back = wire::read_job(bytes_of(bytes));
    ASSERT_EQ(hash_of(back), hash_of(job)) << seed;
    ASSERT_EQ(wire::encode(back), bytes) << seed;
  }
}

TEST(JobRecord, HasANameThatFollowsFromEveryField) {
  const JobRecord job = small_job(record_schedules()[0], record_methods()[5]);
  OneFieldChanged all(-1, 0);
  JobRecord counted = job;
  visit_fields(all, counted);
  EXPECT_GT(all.count, 140);
  JobRecord moved = job;
  moved.model.name = "of another folder";
  moved.model.tensors_xxh3 = {1, 2};
  EXPECT_EQ(hash_of(moved), hash_of(job));
  for (int field = 1; field < all.count; ++field) {
    // A random value may equal the old value; one of sixteen does not.
    bool is_other = false;
    std::string key;
    for (std::uint64_t seed = 1; seed <= 16 && !is_other; ++seed) {
      JobRecord other = job;
      OneFieldChanged change(field, seed);
      visit_fields(change, other);
      key = change.changed;
      is_other = hash_of(other) != hash_of(job);
    }
    EXPECT_EQ(is_other, key != "tensors_xxh3") << key;
  }
}

TEST(JobRecord, HasTheSameNameOnEveryMachineAndInEveryBuild) {
  // Whoever changes a field of job_fields.h, or their order, changes the name
  // of every job.
  JobRecord job;
  job.model.denoiser_config = "{}";
  job.seed = 7;
  EXPECT_EQ(hash_of(job), 17952420242903203988U);
}

TEST(JobRecord, OfEverySolverAndMethodPassesItsCheck) {
  for (const ScheduleOptions& schedule : record_schedules()) {
    for (const MethodOptions& method : record_methods()) {
      const JobRecord job = small_job(schedule, method);
      const std::string bytes = wire::encode(job);
      const JobRecord back = wire::read_job(bytes_of(bytes));
      EXPECT_EQ(hash_of(back), hash_of(job));
      EXPECT_NO_THROW(check(back));
      EXPECT_NO_THROW(check(back, small_values()));
    }
  }
}

struct RecordLatents final : Observer {
  void on_sample(const SampleOutcome& outcome) override {
    const auto bytes = outcome.latents.bytes();
    of[outcome.report.sample_index].assign(bytes.begin(), bytes.end());
  }
  std::map<std::uint64_t, std::vector<std::byte>> of;
};

std::map<std::uint64_t, std::vector<std::byte>> run_record(
    const JobRecord& job, const LoadedModel& model, int workers) {
  JobSpec spec;
  spec.parts = make_parts(job, small_values(), {{Device{}, model}});
  spec.begin = job.begin;
  spec.end = job.end;
  spec.workers = cpu_workers(workers);
  RecordLatents seen;
  spec.observers = {&seen};
  EXPECT_FALSE(run_in_suite(spec).failure);
  return seen.of;
}

TEST(JobRecord, GivesTheSameBytesWhereverItWasRead) {
  ExecContext ctx;
  models::RandomWeights weights(ctx, 3);
  for (const ScheduleOptions& schedule : record_schedules()) {
    for (const MethodOptions& method : record_methods()) {
      JobRecord job = small_job(schedule, method);
      LoadedModel model;
      model.denoiser =
          describe(job.model).denoiser->load(ctx, DType::f32, weights);
      model.weights_hash = job.model.weights_xxh3;
      const auto here = run_record(job, model, 1);
      const std::string bytes = wire::encode(job);
      ASSERT_EQ(here.size(), 3U);
      EXPECT_EQ(run_record(wire::read_job(bytes_of(bytes)), model, 2), here)
          << job.schedule.options.solver->name << ", " << method.kind->name;
    }
  }
}

TEST(JobRecord, IsNotRunWithOtherWeights) {
  ExecContext ctx;
  models::RandomWeights weights(ctx, 3);
  const JobRecord job = small_job(record_schedules()[0], record_methods()[0]);
  LoadedModel model;
  model.denoiser = describe(job.model).denoiser->load(ctx, DType::f32, weights);
  model.weights_hash = 2;
  EXPECT_THROW((void)make_parts(job, small_values(), {{Device{}, model}}),
               Error);
}

/// What reading and checking say of bytes that were changed.
std::string objection_to(const std::string& bytes) {
  try {
    check(wire::read_job(bytes_of(bytes)));
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file);
    return error.message();
  }
}

TEST(JobRecord, IsRefusedWhenItsBytesAreNoRecordOfThisFormat) {
  const std::string bytes =
      wire::encode(small_job(record_schedules()[0], record_methods()[5]));
  EXPECT_EQ(objection_to(bytes), "");
  EXPECT_NE(objection_to(""), "") << "a solver has a name";
  for (std::size_t cut = 1; cut < bytes.size(); cut += 7) {
    EXPECT_NE(objection_to(bytes.substr(0, cut)), "") << cut;
  }
  // Field 1 again, and field 1000, a varint: a newer Troupe's.
  for (const char* more : {"\x0a\x01x", "\xc0\x3e\x01"}) {
    EXPECT_NE(objection_to(bytes + more).find("does not know"),
              std::string::npos);
  }
  EXPECT_NE(
      objection_to(std::string(wire::kMostJobBytes + 1, '\0')).find("at most"),
      std::string::npos);
  std::string other = bytes;
  const std::size_t noise = other.find("philox");
  other.replace(noise, 6, "filoks");
  EXPECT_NE(objection_to(other).find("noise: got 'filoks'"), std::string::npos);
}

TEST(JobRecord, IsRefusedWithoutTheValuesItNames) {
  const JobRecord job = small_job(record_schedules()[0], record_methods()[0]);
  EXPECT_NO_THROW(check(job, small_values()));
  JobValues missing = small_values();
  missing.conditions.erase(job.conditions[0]);
  EXPECT_THROW(check(job, missing), Error);
  JobRecord partly = job;
  partly.conditions[0] = 0;  // no sample that is drawn has it
  EXPECT_NO_THROW(check(partly, missing));
  JobValues swapped = small_values();
  swapped.conditions.at(job.conditions[0]) = models::Condition(1);
  EXPECT_THROW(check(job, swapped), Error);

  // A condition of the wrong shape, and a class that the network has not.
  models::Condition wide;
  wide.add("class_label", Tensor::zeros({2}, DType::i64));
  for (const models::Condition& wrong : {wide, models::Condition(4)}) {
    JobRecord other = job;
    other.conditions = {wrong.hash()};
    JobValues values = small_values();
    values.conditions.emplace(wrong.hash(), wrong);
    EXPECT_THROW(check(other, values), Error);
  }

  JobRecord given = job;
  JobValues latents = small_values();
  latents.init_latents = Tensor::zeros({1, 2, 8, 8}, DType::f32);
  EXPECT_THROW(check(job, latents), Error) << "nobody names them";
  given.init_latents = {1};
  EXPECT_THROW(check(given, latents), Error) << "another hash";
  EXPECT_THROW(check(given, small_values()), Error) << "none";
}

TEST(JobRecord, TakesTheTrajectoriesThatItNamesAndNoOthers) {
  JobRecord job = small_job(record_schedules()[0], record_methods()[0]);
  job.method = {.kind = samplers::MethodKind::picard,
                .window_size = 2,
                .initial_guess = samplers::InitialGuess::trajectory};
  const auto points =
      static_cast<std::int64_t>(job.schedule.timesteps.size()) + 1;
  JobValues values = small_values();
  values.guesses = Tensor::zeros({1, points, 2, 8, 8}, DType::f32);
  job.guesses = {xxh3_64(values.guesses.bytes())};
  EXPECT_NO_THROW(check(job, values));
  EXPECT_THROW(check(job, small_values()), Error) << "none";
  JobValues shorter = values;
  shorter.guesses = Tensor::zeros({1, points - 1, 2, 8, 8}, DType::f32);
  EXPECT_THROW(check(job, shorter), Error);
  values.guesses.span<float>()[0] = 1;
  EXPECT_THROW(check(job, values), Error) << "another hash";
}

}  // namespace
}  // namespace troupe::actors
