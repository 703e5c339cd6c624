#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/noise_source.h"

namespace troupe::samplers {
namespace {

Schedule ddpm(int steps) {
  ScheduleOptions options;
  options.solver = Solver::ddpm;
  options.num_inference_steps = steps;
  return Schedule(options);
}

Tensor initial_of(NoiseSource& noise, std::uint64_t sample) {
  Tensor out({1, 4, 5}, DType::f32);
  noise.initial(sample, out);
  return out;
}

Tensor step_of(NoiseSource& noise, std::uint64_t sample, int call) {
  Tensor out({1, 4, 5}, DType::f32);
  noise.step(sample, call, out);
  return out;
}

TEST(TorchNoise, DrawsInSchedulerOrderFromSeedPlusIndex) {
  const Schedule schedule = ddpm(4);
  TorchNoise noise(7, schedule);
  TorchGenerator reference(7 + 2);
  Tensor expected({1, 4, 5}, DType::f32);
  reference.fill_normal(expected);
  EXPECT_TRUE(bytes_equal(initial_of(noise, 2), expected));
  for (int call = 0; call < 3; ++call) {
    reference.fill_normal(expected);
    EXPECT_TRUE(bytes_equal(step_of(noise, 2, call), expected)) << call;
  }
}

TEST(TorchNoise, DrawsNothingForLatentsThatAreGiven) {
  const Schedule schedule = ddpm(4);
  TorchNoise noise(7, schedule, InitialLatents::given);
  TorchGenerator reference(7 + 2);
  Tensor expected({1, 4, 5}, DType::f32);
  for (int call = 0; call < 3; ++call) {
    reference.fill_normal(expected);
    EXPECT_TRUE(bytes_equal(step_of(noise, 2, call), expected)) << call;
  }
  EXPECT_THROW((void)initial_of(noise, 2), Error);
}

TEST(TorchNoise, AnswersInAnyOrder) {
  const Schedule schedule = ddpm(6);
  TorchNoise forward(3, schedule);
  TorchNoise backward(3, schedule);
  std::vector<Tensor> there;
  for (int call = 0; call < 5; ++call) {
    there.push_back(step_of(forward, 1, call));
  }
  for (int call = 4; call >= 0; --call) {
    EXPECT_TRUE(bytes_equal(step_of(backward, 1, call),
                            there[static_cast<std::size_t>(call)]));
  }
  EXPECT_TRUE(bytes_equal(initial_of(forward, 1), initial_of(backward, 1)));
}

TEST(TorchNoise, ForgetsOldSamplesWithoutChangingThem) {
  const Schedule schedule = ddpm(4);
  TorchNoise noise(11, schedule);
  const Tensor before = step_of(noise, 0, 2);
  for (std::uint64_t sample = 1; sample < 200; ++sample) {
    (void)step_of(noise, sample, 1);
  }
  EXPECT_TRUE(bytes_equal(step_of(noise, 0, 2), before));
}

TEST(GeneratorStates, StandBeforeTheNextDrawOfEverySampleInFlight) {
  constexpr std::uint64_t kInFlight = 500;
  GeneratorStates states(3, 1000);
  Tensor out({1, 2, 2}, DType::f32);
  for (std::size_t draw = 0; draw < 20; ++draw) {
    for (std::uint64_t sample = 0; sample < kInFlight; ++sample) {
      auto [at, generator] = states.nearest(sample, draw);
      ASSERT_EQ(at, draw) << "sample " << sample << " is replayed";
      generator.fill_normal(out);
      states.keep(sample, draw + 1, generator);
      ASSERT_LE(states.size(), 1000U);
    }
  }
}

TEST(GeneratorStates, AllStayOfASampleAmongFew) {
  GeneratorStates states(3, 1000);
  Tensor out({1, 2, 2}, DType::f32);
  TorchGenerator generator(3);
  for (std::size_t draw = 1; draw <= 50; ++draw) {
    generator.fill_normal(out);
    states.keep(0, draw, generator);
  }
  for (std::size_t draw = 0; draw <= 50; ++draw) {
    EXPECT_EQ(states.nearest(0, draw).draw, draw);
  }
}

TEST(GeneratorStates, ForgetSamplesWhereThereAreMoreThanStates) {
  GeneratorStates states(3, 100);
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    states.keep(sample, 1, TorchGenerator(3 + sample));
    EXPECT_LE(states.size(), 100U);
    EXPECT_EQ(states.nearest(sample, 1).draw, 1U);
  }
  EXPECT_EQ(states.nearest(0, 1).draw, 0U);
}

TEST(TorchNoise, RefusesCallsThatDrawNothing) {
  const Schedule schedule = ddpm(4);  // its last timestep is 0
  TorchNoise noise(0, schedule);
  Tensor out({1, 4, 5}, DType::f32);
  EXPECT_THROW(noise.step(0, 3, out), Error);
  EXPECT_THROW(noise.step(0, 4, out), Error);
}

TEST(TorchNoise, MayBeSharedByThreads) {
  const Schedule schedule = ddpm(8);
  TorchNoise alone(5, schedule);
  TorchNoise shared(5, schedule);
  std::vector<std::vector<Tensor>> drawn(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < drawn.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int call = 6; call >= 0; --call) {
        drawn[t].push_back(step_of(shared, t % 2, call));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t t = 0; t < drawn.size(); ++t) {
    for (int call = 6; call >= 0; --call) {
      EXPECT_TRUE(bytes_equal(drawn[t][static_cast<std::size_t>(6 - call)],
                              step_of(alone, t % 2, call)));
    }
  }
}

TEST(PhiloxNoise, DiffersBySeedSampleCallAndPurpose) {
  PhiloxNoise noise(1);
  PhiloxNoise other(2);
  const Tensor base = step_of(noise, 0, 0);
  EXPECT_TRUE(bytes_equal(base, step_of(noise, 0, 0)));
  EXPECT_FALSE(bytes_equal(base, step_of(other, 0, 0)));
  EXPECT_FALSE(bytes_equal(base, step_of(noise, 1, 0)));
  EXPECT_FALSE(bytes_equal(base, step_of(noise, 0, 1)));
  EXPECT_FALSE(bytes_equal(base, initial_of(noise, 0)));
}

}  // namespace
}  // namespace troupe::samplers
