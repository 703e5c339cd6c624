#include <gtest/gtest.h>

#include <string>

#include "config/scheduler_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::DpmAlgorithm;
using samplers::SigmaSpacing;
using samplers::Solver;

Errc code_of(const std::string& text, const SchedulerOverrides& over = {}) {
  try {
    (void)parse_scheduler_config(text, "scheduler_config.json", over);
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "accepted " << text;
  return Errc::internal;
}

TEST(SchedulerConfig, ReadsTheKeysOfDit) {
  const auto options = parse_scheduler_config(
      R"({"_class_name": "DDIMScheduler", "_diffusers_version": "0.12.0",
          "beta_end": 0.02, "beta_schedule": "linear", "beta_start": 0.0001,
          "clip_sample": false, "num_train_timesteps": 1000,
          "prediction_type": "epsilon", "set_alpha_to_one": false,
          "steps_offset": 1, "trained_betas": null})",
      "dit");
  EXPECT_EQ(options.solver, Solver::ddim);
  EXPECT_EQ(options.clip_sample, false);
  EXPECT_FALSE(options.set_alpha_to_one);
  EXPECT_EQ(options.steps_offset, 1);
  EXPECT_EQ(options.timestep_spacing, samplers::TimestepSpacing::leading);
}

TEST(SchedulerConfig, TakesPythonsBareInfinity) {
  const auto options = parse_scheduler_config(
      R"({"_class_name": "DPMSolverMultistepScheduler",
          "lambda_min_clipped": -Infinity, "solver_order": 3,
          "algorithm_type": "sde-dpmsolver++", "note": "NaN \" Infinity"})",
      "dpm");
  EXPECT_EQ(options.solver, Solver::dpmpp);
  EXPECT_EQ(options.solver_order, 3);
  EXPECT_EQ(options.algorithm, DpmAlgorithm::sde_dpmsolver_pp);
}

TEST(SchedulerConfig, TakesNoBareWordForANumberThatDecides) {
  for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
    const std::string text =
        std::string(R"({"_class_name": "DDIMScheduler", "beta_end": )") + word +
        "}";
    try {
      (void)parse_scheduler_config(text, "ddim");
      FAIL() << word;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what())
                    .find("beta_end: got \"" + std::string(word) + "\""),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(SchedulerConfig, UsesTheDefaultsOfTheClass) {
  const auto heun =
      parse_scheduler_config(R"({"_class_name": "HeunDiscreteScheduler"})", "");
  EXPECT_EQ(heun.beta_start, 0.00085);
  EXPECT_EQ(heun.clip_sample, false);
  const auto ddpm =
      parse_scheduler_config(R"({"_class_name": "DDPMScheduler"})", "");
  EXPECT_EQ(ddpm.clip_sample, true);
  EXPECT_EQ(ddpm.beta_start, 0.0001);
}

TEST(SchedulerConfig, DropsKeysOfOtherClasses) {
  const auto options = parse_scheduler_config(
      R"({"_class_name": "EulerAncestralDiscreteScheduler",
          "use_karras_sigmas": true, "skip_prk_steps": true,
          "clip_sample": true, "sigma_min": "nonsense"})",
      "");
  EXPECT_EQ(options.sigma_spacing, SigmaSpacing::none);
  EXPECT_EQ(options.clip_sample, false);
}

TEST(SchedulerConfig, ReadsAnotherSolverOverTheSameNoiseSchedule) {
  SchedulerOverrides over;
  over.solver = parse_solver("dpm++2m-sde karras");
  over.json = R"({"beta_end": 0.015})";
  const auto options = parse_scheduler_config(
      R"({"_class_name": "DDIMScheduler", "beta_schedule": "scaled_linear",
          "beta_end": 0.012})",
      "", over);
  EXPECT_EQ(options.solver, Solver::dpmpp);
  EXPECT_EQ(options.algorithm, DpmAlgorithm::sde_dpmsolver_pp);
  EXPECT_EQ(options.sigma_spacing, SigmaSpacing::karras);
  EXPECT_EQ(options.beta_schedule, samplers::BetaSchedule::scaled_linear);
  EXPECT_EQ(options.beta_end, 0.015);
}

TEST(SchedulerConfig, RefusesCorruptText) {
  for (const char* text :
       {"", "[]", "{", "null", R"({"beta_start": 1})",
        R"({"_class_name": "DDIMScheduler", "beta_start": "much"})",
        R"({"_class_name": "DDIMScheduler", "num_train_timesteps": 1e99})",
        R"({"_class_name": "DDIMScheduler", "num_train_timesteps": 2.5})",
        R"({"_class_name": "DDIMScheduler", "num_train_timesteps": true})",
        R"({"_class_name": "DDIMScheduler", "clip_sample": 1})",
        R"({"_class_name": "DDIMScheduler", "trained_betas": [1, "x"]})",
        R"({"_class_name": "DDIMScheduler", "beta_schedule": "wavy"})",
        R"({"_class_name": "EulerDiscreteScheduler",
            "use_karras_sigmas": true, "use_beta_sigmas": true})"}) {
    EXPECT_EQ(code_of(text), Errc::corrupt_file) << text;
  }
}

TEST(SchedulerConfig, TakesTheBetasThatOnlyDdpmHasFromDdpmOnly) {
  for (const char* name : {"sigmoid", "laplace"}) {
    const auto file = [name](const char* solver) {
      return R"({"_class_name": ")" + std::string(solver) +
             R"(", "beta_schedule": ")" + name + "\"}";
    };
    EXPECT_NO_THROW((void)parse_scheduler_config(file("DDPMScheduler"), ""));
    EXPECT_EQ(code_of(file("DDIMScheduler")), Errc::corrupt_file);
    SchedulerOverrides over;
    over.solver = parse_solver("dpm++2m");
    EXPECT_NE(
        parse_scheduler_config(file("DDPMScheduler"), "", over).beta_schedule,
        samplers::BetaSchedule::linear);
  }
}

TEST(SchedulerConfig, SaysWhatItHasNot) {
  EXPECT_EQ(code_of(R"({"_class_name": "PNDMScheduler"})"), Errc::unsupported);
  EXPECT_EQ(code_of(R"({"_class_name": "EulerDiscreteScheduler",
                        "timestep_type": "continuous"})"),
            Errc::unsupported);
}

TEST(SchedulerConfig, NamesTheFileAndTheWayPastAClassItHasNot) {
  for (const char* name : {"PNDMScheduler", "FooScheduler"}) {
    try {
      (void)parse_scheduler_config(
          R"({"_class_name": ")" + std::string(name) + "\"}", "dir/s.json");
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported);
      EXPECT_EQ(error.place(), "dir/s.json");
      EXPECT_NE(error.message().find(name), std::string::npos) << error.what();
      EXPECT_TRUE(error.hint().starts_with("--sampler")) << error.hint();
    }
  }
}

TEST(SchedulerConfig, SaysWhyATextIsNotRead) {
  const auto message_of = [](const char* text) -> std::string {
    try {
      (void)parse_scheduler_config(text, "s.json");
    } catch (const Error& error) {
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(message_of(R"({"beta_start": 1e400})"),
            "a number is too large: number overflow parsing '1e400'");
  EXPECT_TRUE(message_of("{").starts_with("not valid JSON: parse error"))
      << message_of("{");
  EXPECT_EQ(message_of("[]"), "got array, expected a JSON object");
}

TEST(SchedulerConfig, RefusesUnknownOverrides) {
  SchedulerOverrides over;
  over.json = R"({"beta_strat": 0.1})";
  EXPECT_EQ(code_of(R"({"_class_name": "DDIMScheduler"})", over),
            Errc::invalid_argument);
}

TEST(ParseSolver, AcceptsTheSpellingsOfTheField) {
  EXPECT_EQ(parse_solver("ddim").solver, Solver::ddim);
  EXPECT_EQ(parse_solver("DDPMScheduler").solver, Solver::ddpm);
  EXPECT_EQ(parse_solver("euler_a").solver, Solver::euler_ancestral);
  EXPECT_EQ(parse_solver("Euler Ancestral").solver, Solver::euler_ancestral);
  EXPECT_EQ(parse_solver("EulerDiscreteScheduler").solver, Solver::euler);
  EXPECT_EQ(parse_solver("heun").solver, Solver::heun);
  EXPECT_EQ(parse_solver("flow").solver, Solver::flow_euler);
  EXPECT_EQ(parse_solver("FlowMatchEulerDiscreteScheduler").solver,
            Solver::flow_euler);
  EXPECT_EQ(parse_solver("UniPC").solver, Solver::unipc);
  for (const char* name : {"dpm++2m", "dpmpp_2m", "DPM++ 2M", "dpm++-2m"}) {
    const SolverChoice choice = parse_solver(name);
    EXPECT_EQ(choice.solver, Solver::dpmpp) << name;
    EXPECT_EQ(choice.order, 2) << name;
    EXPECT_EQ(choice.algorithm, DpmAlgorithm::dpmsolver_pp) << name;
  }
  EXPECT_EQ(parse_solver("dpmpp_3m_sde").order, 3);
  EXPECT_EQ(parse_solver("dpmpp_3m_sde").algorithm,
            DpmAlgorithm::sde_dpmsolver_pp);
  EXPECT_EQ(parse_solver("DPM++ 2M Karras").sigma_spacing,
            SigmaSpacing::karras);
}

TEST(ParseSolver, KnowsEveryNameItLists) {
  for (const std::string& name : solver_names()) {
    EXPECT_NO_THROW((void)parse_solver(name)) << name;
  }
}

TEST(ParseSolver, SuggestsTheNearestName) {
  try {
    (void)parse_solver("eulre");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(error.hint().find("did you mean 'euler'"), std::string::npos)
        << error.hint();
  }
  EXPECT_THROW((void)parse_solver(""), Error);
}

}  // namespace
}  // namespace troupe::config
