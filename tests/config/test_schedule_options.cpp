#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "config/load_config.h"
#include "config/print_config.h"
#include "config/recipe.h"
#include "config/schedule_options.h"
#include "config/scheduler_config.h"
#include "kernels/core/error.h"
#include "samplers/schedule.h"

namespace troupe::config {
namespace {

using samplers::ScheduleOptions;
using samplers::SigmaSpacing;

SamplerConfig named(const std::string& name) {
  SamplerConfig sampler;
  sampler.name = name;
  return sampler;
}

ScheduleOptions options_of(const SamplerConfig& sampler,
                           const std::string& file = {},
                           const std::string& pipeline = {}) {
  return schedule_options(sampler, file, "scheduler_config.json", pipeline);
}

Error error_of(const SamplerConfig& sampler) {
  try {
    (void)options_of(sampler);
  } catch (const Error& error) {
    return error;
  }
  return {Errc::internal, "test", "no error"};
}

TEST(ScheduleOptions, MakeAScheduleOfEveryNameThatIsListed) {
  for (const std::string& name : solver_names()) {
    EXPECT_NO_THROW((void)samplers::Schedule(options_of(named(name)))) << name;
  }
}

TEST(ScheduleOptions, EndDpmSolverAtSigmaMinUnlessToldOtherwise) {
  const std::string file =
      R"({"_class_name": "DPMSolverMultistepScheduler",
          "final_sigmas_type": "zero"})";
  for (const char* name : {"dpmsolver", "sde-dpmsolver"}) {
    EXPECT_FALSE(options_of(named(name)).final_sigma_zero) << name;
    EXPECT_FALSE(options_of(named(name), file).final_sigma_zero) << name;
    SamplerConfig sampler = named(name);
    sampler.final_sigma_zero = true;
    EXPECT_TRUE(options_of(sampler).final_sigma_zero) << name;
    EXPECT_THROW((void)samplers::Schedule(options_of(sampler)), Error) << name;
  }
  EXPECT_TRUE(options_of(named("dpm++2m"), file).final_sigma_zero);
}

// StableDiffusionPipeline.__init__ sets the keys of every scheduler class that
// has them.
TEST(ScheduleOptions, AreThoseThatStableDiffusionsPipelineSets) {
  for (const char* solver :
       {"DDIMScheduler", "DDPMScheduler", "PNDMScheduler",
        "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"}) {
    for (const char* keys :
         {"", R"(, "steps_offset": 0, "clip_sample": true)"}) {
      const std::string file =
          std::string(R"({"_class_name": ")") + solver + '"' + keys + "}";
      const ScheduleOptions set =
          options_of({}, file, "StableDiffusionPipeline");
      EXPECT_EQ(set.steps_offset, 1) << file;
      EXPECT_FALSE(*set.clip_sample) << file;
      for (const char* other :
           {"", "StableDiffusionXLPipeline", "PixArtSigmaPipeline"}) {
        const ScheduleOptions kept = options_of({}, file, other);
        EXPECT_EQ(kept.steps_offset, 0) << file << other;
        EXPECT_EQ(*kept.clip_sample, kept.solver->has_key("clip_sample"))
            << file << other;
      }
    }
  }
}

TEST(ScheduleOptions, OfUsersArePutOverThePipelines) {
  SamplerConfig sampler = named("ddim");
  const char* file = R"({"_class_name": "PNDMScheduler"})";
  EXPECT_FALSE(
      *options_of(sampler, file, "StableDiffusionPipeline").clip_sample);
  sampler.clip_sample = true;
  EXPECT_TRUE(
      *options_of(sampler, file, "StableDiffusionPipeline").clip_sample);
}

TEST(ScheduleOptions, TakeTheFinalSigmaFromItsFlag) {
  const Config config = load_config(
      Verb::sample,
      {.flags = {{"--final-sigmas-type", "final-sigmas-type", "sigma_min"}}});
  EXPECT_EQ(config.sampler.final_sigma_zero, false);
  EXPECT_NE(
      to_toml(Verb::sample, config).find("final-sigmas-type = \"sigma_min\" "),
      std::string::npos);
  SamplerConfig sampler = config.sampler;
  sampler.name = "dpm++2m";
  Recipe recipe;
  recipe.schedule = options_of(sampler);
  EXPECT_FALSE(recipe.schedule.final_sigma_zero);
  EXPECT_FALSE(
      parse_recipe("x.png", to_json(recipe)).schedule.final_sigma_zero);
}

struct Dropped {
  const char* sampler;
  const char* flag;
  std::function<void(SamplerConfig&)> say;
  const char* taker;
};

TEST(ScheduleOptions, RefuseFlagsThatTheSolverWouldDrop) {
  const auto order = [](SamplerConfig& s) { s.solver_order = 2; };
  const auto eta = [](SamplerConfig& s) { s.eta = 0.5; };
  const auto shift = [](SamplerConfig& s) { s.shift = 3; };
  const auto karras = [](SamplerConfig& s) {
    s.sigma_spacing = SigmaSpacing::karras;
  };
  for (const Dropped& c : std::initializer_list<Dropped>{
           {"ddim", "--order", order, "unipc, dpm++"},
           {"euler", "--eta", eta, "ddim"},
           {"ddim", "--shift", shift, "flow"},
           {"ddim", "--sigma-spacing", karras, "euler, heun"},
           {"flow", "--timestep-spacing",
            [](SamplerConfig& s) {
              s.timestep_spacing = samplers::TimestepSpacing::trailing;
            },
            "euler_a"},
           {"flow", "--beta-end", [](SamplerConfig& s) { s.beta_end = 0.01; },
            "ddpm"},
           {"flow", "--prediction-type",
            [](SamplerConfig& s) {
              s.prediction_type = samplers::PredictionType::epsilon;
            },
            "ddpm"},
           {"ddim", "--variance-type",
            [](SamplerConfig& s) {
              s.variance_type = samplers::VarianceType::fixed_large;
            },
            "ddpm"},
           {"dpm++", "--clip-sample",
            [](SamplerConfig& s) { s.clip_sample = true; }, "heun"},
           {"heun", "--final-sigmas-type",
            [](SamplerConfig& s) { s.final_sigma_zero = true; }, "unipc"}}) {
    SamplerConfig sampler = named(c.sampler);
    c.say(sampler);
    const Error error = error_of(sampler);
    EXPECT_EQ(error.code(), Errc::invalid_argument) << c.flag;
    EXPECT_EQ(error.place(), c.flag);
    EXPECT_NE(error.message().find(c.taker), std::string::npos) << error.what();
  }
}

TEST(ScheduleOptions, KeepFlagsThatTheSolverTakes) {
  SamplerConfig sampler = named("unipc");
  sampler.solver_order = 3;
  sampler.sigma_spacing = SigmaSpacing::karras;
  sampler.final_sigma_zero = false;
  EXPECT_EQ(options_of(sampler).solver_order, 3);
  SamplerConfig plain = named("ddim");
  plain.sigma_spacing = SigmaSpacing::none;
  EXPECT_NO_THROW((void)options_of(plain));
  SamplerConfig shifted = named("dpm++2m");
  shifted.shift = 3;
  EXPECT_THROW((void)options_of(shifted), Error);
  EXPECT_EQ(options_of(shifted, R"({"_class_name": "FlowMatchEulerDiscrete",
                                    "use_flow_sigmas": true})")
                .flow_shift,
            3);
}

TEST(ScheduleOptions, LetTheFileSayWhatItsSolverDrops) {
  EXPECT_NO_THROW((void)options_of(
      {}, R"({"_class_name": "DDIMScheduler", "solver_order": 3,
              "use_karras_sigmas": true, "flow_shift": 3.0})"));
}

TEST(ScheduleOptions, RefuseWhatContradictsTheSolversName) {
  SamplerConfig sampler = named("dpm++3m");
  sampler.solver_order = 2;
  EXPECT_EQ(error_of(sampler).place(), "--order");
  sampler.solver_order = 3;
  EXPECT_EQ(options_of(sampler).solver_order, 3);
  sampler = named("dpm++2m karras");
  sampler.sigma_spacing = SigmaSpacing::beta;
  EXPECT_EQ(error_of(sampler).place(), "--sigma-spacing");
  EXPECT_EQ(error_of(named("ddim karras")).place(), "--sampler");
}

TEST(ScheduleOptions, RefuseStepsBesideAListOfThem) {
  for (const char* list : {"sigmas", "timesteps"}) {
    const Setting steps = {"--steps", "steps", "3"};
    const Setting levels = {std::string("--") + list, list, "9,5,1"};
    EXPECT_THROW((void)load_config(Verb::sample, {.flags = {steps, levels}}),
                 Error);
    // The stronger source has the say.
    const Config listed =
        load_config(Verb::sample, {.flags = {levels}, .environment = {steps}});
    EXPECT_EQ(listed.sampler.steps, std::nullopt);
    const Config counted =
        load_config(Verb::sample, {.flags = {steps}, .environment = {levels}});
    EXPECT_TRUE(counted.sampler.sigmas.empty());
    EXPECT_TRUE(counted.sampler.timesteps.empty());
  }
}

TEST(ScheduleOptions, LetStepsReplaceARecipesList) {
  ScheduleOptions options;
  options.timesteps = {900, 500, 100};
  SamplerConfig sampler;
  sampler.steps = 20;
  apply(sampler, options);
  EXPECT_EQ(samplers::Schedule(options).num_steps(), 20);
}

}  // namespace
}  // namespace troupe::config
