#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/schedule.h"
#include "samplers/solver.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) ==
                           0);  // NoiseLevel: four doubles
}

void expect_same_tables(const ScheduleTable& a, const ScheduleTable& b) {
  EXPECT_EQ(a.options, b.options);
  EXPECT_TRUE(same_bits(a.timesteps, b.timesteps));
  EXPECT_TRUE(same_bits(a.sigmas, b.sigmas));
  EXPECT_TRUE(same_bits(a.levels, b.levels));
  EXPECT_TRUE(same_bits(a.arrivals, b.arrivals));
  EXPECT_TRUE(same_bits(a.residual_scales, b.residual_scales));
  EXPECT_TRUE(same_bits(a.alphas_cumprod, b.alphas_cumprod));
  EXPECT_EQ(a.init_noise_sigma, b.init_noise_sigma);
}

/// Steps, guesses, carries and scales of a whole run and of all jumps; whatever
/// throws an Error is left out.
std::vector<Tensor> everything_of(const Schedule& schedule) {
  ExecContext ctx;
  ToyNoise noise;
  const Shape shape{1, 2, 3};
  const bool has_variance = learns_variance(schedule.options());
  ToyEvaluator network(shape, 1, has_variance);
  Tensor start(shape, DType::f32);
  noise.initial(3, start);
  std::vector<Tensor> all;
  SolverState state = initial_state(ctx, schedule, start);
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    std::vector<EvaluateRow> rows(1);
    rows[0] = {.sample_index = 3,
               .timestep = schedule.timestep(call),
               .latents = scale_model_input(ctx, schedule, call, state.latents),
               .output = Tensor({network.out_channels(), 2, 3}, DType::f32)};
    network.evaluate(ctx, rows);
    const Tensor& output = rows[0].output;
    all.push_back(denoised(ctx, schedule, call, state.latents, output));
    for (int to = schedule.num_model_calls(); to > call; --to) {
      Tensor scalars({3}, DType::f32);
      scalars.data<float>()[0] =
          static_cast<float>(carry_coefficient(schedule, call, to));
      scalars.data<float>()[1] =
          static_cast<float>(schedule.residual_scale(to));
      scalars.data<float>()[2] = static_cast<float>(schedule.level(to).alpha);
      all.push_back(scalars);
      all.push_back(
          extrapolate(ctx, schedule, call, to, state.latents, output));
      try {
        SolverState next =
            step(ctx, schedule, call, to, state, output, 3, noise);
        all.push_back(next.latents);
        if (to == call + 1) {
          state = std::move(next);
        }
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
      }
    }
  }
  return all;
}

class EveryTable : public ::testing::TestWithParam<SolverCase> {};

TEST_P(EveryTable, GivesAScheduleWithTheSameSteps) {
  const Schedule made(GetParam().options);
  const Schedule rebuilt = Schedule::from_table(made.table());
  expect_same_tables(rebuilt.table(), made.table());
  const std::vector<Tensor> want = everything_of(made);
  const std::vector<Tensor> got = everything_of(rebuilt);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bytes_equal(got[i], want[i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Solvers, EveryTable,
                         ::testing::ValuesIn(solver_cases(5)),
                         [](const auto& item) { return item.param.name; });

ScheduleTable table_of(Solver solver) {
  return Schedule(steps(4, solver)).table();
}

void expect_refused(ScheduleTable table, const std::string& place) {
  try {
    (void)Schedule::from_table(std::move(table));
    ADD_FAILURE() << "accepted: " << place;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
    const std::string text = error.what();
    EXPECT_NE(text.find("[schedule table] " + place), std::string::npos)
        << text;
  }
}

TEST(ScheduleTables, OfLongSchedulesAreAccepted) {
  for (const Solver solver : solver_table()) {
    for (const int count : {1, 2, 50, 500}) {
      ScheduleOptions options = steps(count, solver);
      for (const double shift : {0.1, 1.0, 3.1, 17.0}) {
        options.shift = shift;
        const Schedule schedule(options);
        EXPECT_NO_THROW((void)Schedule::from_table(schedule.table()))
            << solver->name << " " << count << " " << shift;
      }
    }
  }
}

TEST(ScheduleTables, OfOtherSizesAreRefused) {
  const ScheduleTable good = table_of(Solver::ddim);
  const auto refuse = [&](const char* place, const auto& change) {
    ScheduleTable table = good;
    change(table);
    expect_refused(std::move(table), place);
  };
  refuse("timesteps", [](auto& t) { t.timesteps.clear(); });
  refuse("timesteps", [](auto& t) { t.timesteps.push_back(0); });
  refuse("sigmas", [](auto& t) { t.timesteps.pop_back(); });
  refuse("sigmas", [](auto& t) { t.sigmas.pop_back(); });
  refuse("levels", [](auto& t) { t.levels.clear(); });
  refuse("arrivals", [](auto& t) { t.arrivals.pop_back(); });
  refuse("residual_scales", [](auto& t) { t.residual_scales.push_back(1); });
  refuse("alphas_cumprod", [](auto& t) { t.alphas_cumprod.pop_back(); });
  ScheduleTable flow = table_of(Solver::flow_euler);
  flow.alphas_cumprod.resize(1000);
  expect_refused(std::move(flow), "alphas_cumprod");
  ScheduleTable heun = table_of(Solver::heun);
  heun.timesteps.pop_back();
  expect_refused(std::move(heun), "timesteps");
  ScheduleTable pndm = table_of(Solver::pndm);
  pndm.timesteps.pop_back();  // as many are allowed, but each has its place
  expect_refused(std::move(pndm), "timesteps");
}

TEST(ScheduleTables, OfAPartSayWhatIsLeftOut) {
  ScheduleOptions options;
  options.denoising_end = 0.5;
  const ScheduleTable table = Schedule(options).table();
  EXPECT_EQ(table.calls_after, 25);
  for (const auto& [before, after] :
       {std::pair(0, 26), std::pair(1, 25), std::pair(0, -1)}) {
    ScheduleTable other = table;
    other.calls_before = before;
    other.calls_after = after;
    EXPECT_THROW((void)Schedule::from_table(other), Error);
  }
  ScheduleTable whole = table;
  whole.options.denoising_end.reset();
  EXPECT_THROW((void)Schedule::from_table(whole), Error);
}

TEST(ScheduleTables, WithNumbersThatCannotBeAreRefused) {
  const ScheduleTable good = table_of(Solver::ddim);
  const auto refuse = [&](const char* place, const auto& number_of,
                          const std::vector<double>& numbers) {
    for (const double number : numbers) {
      ScheduleTable table = good;
      number_of(table) = number;
      expect_refused(std::move(table), place);
    }
  };
  refuse("timesteps[1]", [](auto& t) -> double& { return t.timesteps[1]; },
         {kNan, kInf, -kInf, -2});
  refuse("sigmas[2]", [](auto& t) -> double& { return t.sigmas[2]; },
         {kNan, kInf, -1, 1e300});
  refuse("levels[4].alpha",
         [](auto& t) -> double& { return t.levels[4].alpha; },
         {kNan, kInf, -1, -1e-7, 1e300});
  refuse("levels[0].sigma",
         [](auto& t) -> double& { return t.levels[0].sigma; },
         {kNan, kInf, -1});
  refuse("levels[0].log_alpha",
         [](auto& t) -> double& { return t.levels[0].log_alpha; },
         {kNan, kInf, -kInf, 0, 3});
  refuse("levels[1].log_sigma",
         [](auto& t) -> double& { return t.levels[1].log_sigma; },
         {kNan, -kInf, good.levels[1].log_sigma + 1e-9});
  refuse("arrivals[3].alpha",
         [](auto& t) -> double& { return t.arrivals[3].alpha; }, {kNan, -1});
  refuse("arrivals[3].log_sigma",
         [](auto& t) -> double& { return t.arrivals[3].log_sigma; },
         {kNan, kInf, -700, 0});
  refuse("residual_scales[4]",
         [](auto& t) -> double& { return t.residual_scales[4]; },
         {kNan, kInf, 0, -1});
  refuse("init_noise_sigma",
         [](auto& t) -> double& { return t.init_noise_sigma; },
         {kNan, kInf, -1});
  ScheduleTable table = good;
  table.alphas_cumprod[999] = std::nanf("");
  expect_refused(std::move(table), "alphas_cumprod[999]");
}

TEST(ScheduleTables, WithOptionsThatCannotBeAreRefused) {
  const auto refuse = [](Solver solver, const char* place, const auto& change) {
    ScheduleTable table = table_of(solver);
    change(table.options);
    expect_refused(std::move(table), place);
  };
  using O = ScheduleOptions;
  refuse(Solver::dpmpp, "options: solver_order",
         [](O& o) { o.solver_order = 1 << 20; });
  refuse(Solver::unipc, "options: solver_order",
         [](O& o) { o.solver_order = -1; });
  refuse(Solver::ddim, "options: not resolved",
         [](O& o) { o.clip_sample.reset(); });
  refuse(Solver::ddim, "options: not resolved",
         [](O& o) { o.prediction_type.reset(); });
  refuse(Solver::dpmpp, "options: not resolved",
         [](O& o) { o.solver_type.clear(); });
  refuse(Solver::dpmpp, "options: not resolved",
         [](O& o) { o.base_shift = kNan; });
  refuse(Solver::ddim, "options: eta", [](O& o) { o.eta = kNan; });
  refuse(Solver::dpmpp, "options: dynamic_thresholding_ratio",
         [](O& o) { o.dynamic_thresholding_ratio = 2; });
  refuse(Solver::ddim, "options: num_train_timesteps",
         [](O& o) { o.num_train_timesteps = 2'000'000'000; });
  refuse(Solver::ddim, "options: num_inference_steps",
         [](O& o) { o.num_inference_steps = -4; });
  refuse(Solver::dpmpp, "options.algorithm",
         [](O& o) { o.algorithm = static_cast<DpmAlgorithm>(200); });
  refuse(Solver::ddpm, "options.variance_type",
         [](O& o) { o.variance_type = static_cast<VarianceType>(6); });
  refuse(Solver::ddim, "options.prediction_type",
         [](O& o) { o.prediction_type = static_cast<PredictionType>(4); });
  // One line, whatever a stranger writes.
  refuse(Solver::unipc, "options: solver_type: got '?[31m bh2'",
         [](O& o) { o.solver_type = "\x1b[31m\nbh2"; });
}

TEST(ScheduleTables, WithoutSignalNeedClipping) {
  ScheduleTable table = table_of(Solver::ddim);
  table.levels[0] = {0, 1, -kInf, 0};
  expect_refused(std::move(table), "prediction_type");
}

/// A number that is likely to do harm.
double harmful(std::mt19937& rng, double from) {
  constexpr double kNumbers[] = {
      0,      -0.0, 1,    -1,    kNan, kInf, -kInf, 0.5,       2,     1e-40,
      1e-300, 1e30, 3e38, 1e300, 999,  1000, -1e-7, 1.0000001, 1e-20, 5e-324};
  const auto choice = rng() % (std::size(kNumbers) + 4);
  switch (choice) {
    case 0:
      return -from;
    case 1:
      return from * 2;
    case 2:
      return std::nextafter(from, kInf);
    case 3:
      return from * 1e-3;
    default:
      return kNumbers[choice - 4];
  }
}

void mutate_level(std::mt19937& rng, NoiseLevel& level) {
  double* const fields[] = {&level.alpha, &level.sigma, &level.log_alpha,
                            &level.log_sigma};
  double& field = *fields[rng() % 4];
  field = harmful(rng, field);
  if (rng() % 4 != 0) {  // its logarithm may be right
    level.log_alpha = std::log(level.alpha);
    level.log_sigma = std::log(level.sigma);
  }
}

template <typename T>
T& any_of(std::mt19937& rng, std::vector<T>& list) {
  return list[rng() % list.size()];
}

void mutate_options(std::mt19937& rng, ScheduleOptions& o) {
  double* const numbers[] = {&o.eta, &o.clip_sample_range, &o.sample_max_value,
                             &o.dynamic_thresholding_ratio, &o.shift};
  int* const counts[] = {&o.num_inference_steps, &o.num_train_timesteps,
                         &o.solver_order, &o.steps_offset};
  bool* const flags[] = {&o.thresholding,        &o.lower_order_final,
                         &o.euler_at_final,      &o.predict_x0,
                         &o.use_flow_sigmas,     &o.invert_sigmas,
                         &o.stochastic_sampling, &o.final_sigma_zero};
  switch (rng() % 7) {
    case 0: {
      double& number = *numbers[rng() % std::size(numbers)];
      number = harmful(rng, number);
      break;
    }
    case 1: {
      int& count = *counts[rng() % std::size(counts)];
      constexpr int kCounts[] = {-1, 0, 1, 2, 3, 4, 6, 1000000, 2147483647};
      count = kCounts[rng() % std::size(kCounts)];
      break;
    }
    case 2: {
      bool& flag = *flags[rng() % std::size(flags)];
      flag = !flag;
      break;
    }
    case 3:
      o.solver = solver_table()[rng() % solver_table().size()];
      break;
    case 4:
      o.prediction_type = static_cast<PredictionType>(rng() % 5);
      break;
    case 5:
      o.variance_type = static_cast<VarianceType>(rng() % 7);
      o.algorithm = static_cast<DpmAlgorithm>(rng() % 5);
      break;
    default:
      o.clip_sample = rng() % 2 == 0;
      break;
  }
}

void mutate(std::mt19937& rng, ScheduleTable& table) {
  switch (rng() % 9) {
    case 0:
    case 1:
      mutate_level(rng, any_of(rng, table.levels));
      break;
    case 2:
    case 3:
      mutate_level(rng, any_of(rng, table.arrivals));
      break;
    case 4: {
      double& sigma = any_of(rng, table.sigmas);
      sigma = harmful(rng, sigma);
      break;
    }
    case 5: {
      double& timestep = any_of(rng, table.timesteps);
      timestep = harmful(rng, timestep);
      break;
    }
    case 6: {
      double& scale = any_of(rng, table.residual_scales);
      scale = harmful(rng, scale);
      table.init_noise_sigma = harmful(rng, table.init_noise_sigma);
      break;
    }
    default:
      mutate_options(rng, table.options);
      break;
  }
}

TEST(ScheduleTables, ThatWereMutatedAreRefusedOrStep) {
  std::mt19937 rng(20);
  const std::vector<SolverCase> cases = solver_cases(4);
  std::vector<ScheduleTable> tables;
  for (const SolverCase& one : cases) {
    tables.push_back(Schedule(one.options).table());
  }
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    ScheduleTable table = tables[rng() % tables.size()];
    const auto changes = 1 + rng() % 3;
    for (std::size_t i = 0; i < changes; ++i) {
      mutate(rng, table);
    }
    try {
      (void)everything_of(Schedule::from_table(std::move(table)));
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::corrupt_file) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(accepted, 2'000);
  EXPECT_GT(refused, 2'000);
}

}  // namespace
}  // namespace troupe::samplers::testing
