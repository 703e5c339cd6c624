#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "config/scheduler_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::DpmAlgorithm;
using samplers::SigmaSpacing;
using samplers::Solver;

Errc code_of(const std::string& text,
             const std::optional<SolverChoice>& over = {}) {
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
  EXPECT_TRUE(ddpm.set_alpha_to_one);
  const auto pndm =
      parse_scheduler_config(R"({"_class_name": "PNDMScheduler"})", "");
  EXPECT_EQ(pndm.solver, Solver::pndm);
  EXPECT_EQ(pndm.clip_sample, false);
  EXPECT_EQ(pndm.timestep_spacing, samplers::TimestepSpacing::leading);
  EXPECT_FALSE(pndm.set_alpha_to_one);
  EXPECT_FALSE(pndm.skip_prk_steps);
}

TEST(SchedulerConfig, ReadsTheKeysOfStableDiffusion) {
  const std::string file =
      R"({"_class_name": "PNDMScheduler", "_diffusers_version": "0.6.0",
          "beta_end": 0.012, "beta_schedule": "scaled_linear",
          "beta_start": 0.00085, "num_train_timesteps": 1000,
          "set_alpha_to_one": false, "skip_prk_steps": true,
          "steps_offset": 1, "trained_betas": null, "clip_sample": false})";
  const auto options = parse_scheduler_config(file, "sd");
  EXPECT_EQ(options.solver, Solver::pndm);
  EXPECT_TRUE(options.skip_prk_steps);
  EXPECT_FALSE(options.set_alpha_to_one);
  EXPECT_EQ(options.steps_offset, 1);
  // Another solver drops the keys of foreign classes.
  const auto ddim = parse_scheduler_config(file, "sd", parse_solver("ddim"));
  EXPECT_FALSE(ddim.skip_prk_steps);
  EXPECT_FALSE(ddim.set_alpha_to_one);
}

TEST(SchedulerConfig, RunsPlmsByNameOverAnyNoiseSchedule) {
  const std::string file =
      R"({"_class_name": "DDIMScheduler", "steps_offset": 1})";
  const auto plms = parse_scheduler_config(file, "", parse_solver("PLMS"));
  EXPECT_EQ(plms.solver, Solver::pndm);
  EXPECT_TRUE(plms.skip_prk_steps);
  EXPECT_EQ(plms.steps_offset, 1);
  const auto pndm = parse_scheduler_config(file, "", parse_solver("pndm"));
  EXPECT_EQ(pndm.solver, Solver::pndm);
  EXPECT_FALSE(pndm.skip_prk_steps);
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

// diffusers keeps keys of a file that are no arguments of the class, and its
// respacing reads these two.
TEST(SchedulerConfig, ReadsTheEndsOfARespacedTableForEveryClassThatRespaces) {
  for (const char* name :
       {"EulerDiscreteScheduler", "HeunDiscreteScheduler",
        "DPMSolverMultistepScheduler", "UniPCMultistepScheduler"}) {
    for (const char* spacing :
         {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"}) {
      auto options = parse_scheduler_config(
          std::string(R"({"_class_name": ")") + name +
              R"(", "sigma_min": 0.05, "sigma_max": 10.0, ")" + spacing +
              R"(": true})",
          "");
      options.num_inference_steps = 5;
      const samplers::Schedule schedule(options);
      EXPECT_NEAR(schedule.sigmas().front(), 10.0, 1e-4) << name << spacing;
      EXPECT_NEAR(schedule.sigmas()[schedule.sigmas().size() - 2], 0.05, 2e-2)
          << name << spacing;
    }
  }
}

TEST(SchedulerConfig, ReadsAnotherSolverOverTheSameNoiseSchedule) {
  const SolverChoice over = parse_solver("dpm++2m-sde karras");
  const auto options = parse_scheduler_config(
      R"({"_class_name": "DDIMScheduler", "beta_schedule": "scaled_linear",
          "beta_end": 0.012})",
      "", over);
  EXPECT_EQ(options.solver, Solver::dpmpp);
  EXPECT_EQ(options.algorithm, DpmAlgorithm::sde_dpmsolver_pp);
  EXPECT_EQ(options.sigma_spacing, SigmaSpacing::karras);
  EXPECT_EQ(options.beta_schedule, samplers::BetaSchedule::scaled_linear);
  EXPECT_EQ(options.beta_end, 0.012);
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
    const SolverChoice over = parse_solver("dpm++2m");
    EXPECT_NE(
        parse_scheduler_config(file("DDPMScheduler"), "", over).beta_schedule,
        samplers::BetaSchedule::linear);
  }
}

TEST(SchedulerConfig, SaysWhatItHasNot) {
  EXPECT_EQ(code_of(R"({"_class_name": "LMSDiscreteScheduler"})"),
            Errc::unsupported);
  EXPECT_EQ(code_of(R"({"_class_name": "EulerDiscreteScheduler",
                        "timestep_type": "continuous"})"),
            Errc::unsupported);
}

TEST(SchedulerConfig, NamesTheFileAndTheWayPastAClassItHasNot) {
  for (const char* name : {"LMSDiscreteScheduler", "FooScheduler"}) {
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

TEST(ParseSolver, TakesVariantsByTheirNames) {
  EXPECT_EQ(parse_solver("uni_pc_bh2").type, "bh2");
  EXPECT_EQ(parse_solver("unipc-bh1 karras").type, "bh1");
  EXPECT_EQ(parse_solver("dpm++2m").type, "");
  const SolverChoice heun = parse_solver("DPM++ 2M SDE Heun");
  EXPECT_EQ(heun.type, "heun");
  EXPECT_EQ(heun.order, 2);
  EXPECT_EQ(heun.algorithm, DpmAlgorithm::sde_dpmsolver_pp);
  EXPECT_EQ(parse_solver("DDIMParallelScheduler").solver, Solver::ddim);
}

TEST(ParseSolver, TakesKDiffusionsNames) {
  EXPECT_EQ(parse_solver("k_euler").solver, Solver::euler);
  EXPECT_EQ(parse_solver("k_euler_a").solver, Solver::euler_ancestral);
  EXPECT_EQ(parse_solver("sample_euler_ancestral").solver,
            Solver::euler_ancestral);
  EXPECT_EQ(parse_solver("k_dpmpp_2m").order, 2);
  for (const char* spacing : {"karras", "Karras", "exponential", "beta"}) {
    try {
      (void)parse_solver(spacing);
      ADD_FAILURE() << spacing;
    } catch (const Error& error) {
      EXPECT_NE(error.hint().find("--sigma-spacing"), std::string::npos);
    }
  }
}

struct Foreign {
  const char* name;
  const char* means;    ///< a part of the message
  const char* instead;  ///< the hint begins "nearest is" this
};

/// Names of k-diffusion, A1111, ComfyUI and diffusers' classes.
TEST(ParseSolver, RefusesNamesThatMeanSomethingElseElsewhere) {
  for (const Foreign& c : std::initializer_list<Foreign>{
           {"DPM++ SDE", "singlestep SDE", "dpm++2m-sde"},
           {"dpmpp_sde", "singlestep SDE", "dpm++2m-sde"},
           {"dpmpp_sde_gpu", "singlestep SDE", "dpm++2m-sde"},
           {"DPM++ SDE Karras", "singlestep SDE", "dpm++2m-sde"},
           {"DPMSolverSDEScheduler", "singlestep SDE", "dpm++2m-sde"},
           {"DPM++ 2S a", "ancestral singlestep", "dpm++2m-sde"},
           {"DPM++ 2S a Karras", "ancestral singlestep", "dpm++2m-sde"},
           {"dpmpp_2s_ancestral", "ancestral singlestep", "dpm++2m-sde"},
           {"dpmpp_2s_ancestral_cfg_pp", "ancestral singlestep", "dpm++2m"},
           {"DPMSolverSinglestepScheduler", "singlestep", "dpm++2m"},
           {"DPM-Solver-2", "singlestep", "dpmsolver"},
           {"dpm-solver-3", "singlestep", "dpmsolver"},
           {"DPM2", "KDPM2DiscreteScheduler", "heun"},
           {"dpm_2", "KDPM2DiscreteScheduler", "heun"},
           {"KDPM2DiscreteScheduler", "KDPM2DiscreteScheduler", "heun"},
           {"DPM2 a Karras", "KDPM2Ancestral", "euler_a"},
           {"dpm_2_ancestral", "KDPM2Ancestral", "euler_a"},
           {"KDPM2AncestralDiscreteScheduler", "KDPM2Ancestral", "euler_a"},
           {"DPM fast", "singlestep", "dpm++2m"},
           {"DPM adaptive", "chooses its own number of steps", "dpm++3m"},
           {"LMS", "linear multistep", "unipc"},
           {"LMS Karras", "linear multistep", "unipc"},
           {"LMSDiscreteScheduler", "linear multistep", "unipc"},
           {"ipndm_v", "linear multistep", "plms"},
           {"deis", "exponential integrator", "unipc"},
           {"DEISMultistepScheduler", "exponential integrator", "unipc"},
           {"heunpp2", "third order", "heun"},
           {"Restart", "goes back to noise", "heun"},
           {"LCM", "distilled", "ddim"},
           {"LCMScheduler", "distilled", "ddim"},
           {"TCDScheduler", "distilled", "ddim"},
           {"sa_solver", "stochastic Adams", "dpm++3m-sde"},
           {"SASolverScheduler", "stochastic Adams", "dpm++3m-sde"},
           {"res_multistep_cfg_pp", "another solver", "dpm++2m"},
           {"gradient_estimation", "another solver", "euler"},
           {"EDMEulerScheduler", "EDM", "euler"},
           {"FlowMatchHeunDiscreteScheduler", "Heun's rule", "flow or unipc"},
           {"DDIMInverseScheduler", "back to noise", "ddim"},
           {"DDIM CFG++", "CFG++", "the same name without CFG++"},
           {"euler_cfg_pp", "CFG++", "the same name without CFG++"},
           {"dpmpp_2m_cfg_pp", "CFG++", "the same name without CFG++"},
           {"dpmpp_2m_sde_gpu", "made on the GPU", "the same name"},
           {"dpmpp_3m_sde_gpu", "made on the GPU", "the same name"},
           {"DPM++ 2M SGM Uniform", "SGM Uniform",
            "--timestep-spacing trailing"},
           {"Euler Simple", "simple", "--timestep-spacing trailing"},
           {"euler normal", "normal", "--timestep-spacing linspace"},
           {"DPM++ 3M SDE Polyexponential", "polyexponential",
            "--sigma-spacing exponential"},
           {"DPM++ 2M Align Your Steps", "Align Your Steps", "--timesteps"},
           {"DPM++ 2M KL Optimal", "KL Optimal", "--sigmas"}}) {
    try {
      (void)parse_solver(c.name);
      ADD_FAILURE() << c.name << " runs something";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::unsupported) << c.name;
      EXPECT_NE(error.message().find(c.means), std::string::npos)
          << error.what();
      EXPECT_TRUE(
          error.hint().starts_with("nearest is " + std::string(c.instead)))
          << c.name << ": " << error.hint();
      EXPECT_NE(error.hint().find("there is ddim"), std::string::npos)
          << error.hint();
    }
  }
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
