#include <gtest/gtest.h>

#include <string>

#include "config/enum_names.h"
#include "config/model_prediction.h"
#include "config/schedule_options.h"
#include "kernels/core/error.h"
#include "samplers/schedule.h"

namespace troupe::config {
namespace {

using samplers::PredictionType;
using samplers::ScheduleOptions;
using samplers::Solver;

constexpr const char* kPlace = "scheduler_config.json";

std::string file(const std::string& name, const std::string& more = {}) {
  return R"({"_class_name": ")" + name + "\"" + (more.empty() ? "" : ", ") +
         more + "}";
}

/// A model that predicts `type`, as its own scheduler says.
std::string file_of(PredictionType type) {
  return type == PredictionType::flow_prediction
             ? file("FlowMatchEulerDiscreteScheduler", R"("shift": 3.0)")
             : file("DDIMScheduler",
                    R"("prediction_type": ")" + name_of(type) + "\"");
}

ScheduleOptions options_of(const std::string& sampler, const std::string& text,
                           std::optional<PredictionType> said = {}) {
  SamplerConfig config;
  config.name = sampler;
  config.prediction_type = said;
  return schedule_options(config, text, kPlace, {});
}

/// Whether the sampler is let run over the model of this file.
bool runs(const std::string& sampler, const std::string& text,
          std::optional<PredictionType> said = {}) {
  try {
    const samplers::Schedule schedule(options_of(sampler, text, said));
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2) << error.what();
    return false;
  }
}

TEST(ModelPrediction, LetsEverySolverRunWhatItCanRead) {
  struct Row {
    const char* sampler;
    bool epsilon, v, sample, flow;
  };
  for (const Row& row :
       std::initializer_list<Row>{{"ddim", true, true, true, false},
                                  {"ddpm", true, true, true, false},
                                  {"pndm", true, true, false, false},
                                  {"plms", true, true, false, false},
                                  {"euler", true, true, true, false},
                                  {"euler_a", true, true, false, false},
                                  {"heun", true, true, true, false},
                                  {"flow", false, false, false, true},
                                  {"unipc", true, true, true, true},
                                  {"dpm++1m", true, true, true, true},
                                  {"dpm++2m", true, true, true, true},
                                  {"dpm++3m", true, true, true, true},
                                  {"dpm++2m-sde", true, true, true, true},
                                  {"dpm++3m-sde", true, true, true, true},
                                  {"dpmsolver", true, true, true, false},
                                  {"sde-dpmsolver", true, true, true, false}}) {
    const bool expected[] = {row.epsilon, row.v, row.sample, row.flow};
    for (int type = 0; type < 4; ++type) {
      const auto predicted = static_cast<PredictionType>(type);
      EXPECT_EQ(runs(row.sampler, file_of(predicted)), expected[type])
          << row.sampler << " over " << name_of(predicted);
    }
  }
}

TEST(ModelPrediction, NamesTheFlagTheFileAndTheWayPast) {
  try {
    (void)options_of("flow", file_of(PredictionType::epsilon));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_EQ(error.place(), "--sampler");
    for (const char* says :
         {"predicts epsilon", kPlace, "DDIMScheduler", "flow_prediction"}) {
      EXPECT_NE(error.message().find(says), std::string::npos) << error.what();
    }
    EXPECT_NE(error.hint().find("--prediction-type"), std::string::npos);
  }
}

TEST(ModelPrediction, GivesWayToWhatTheUserSays) {
  EXPECT_TRUE(runs("flow", file_of(PredictionType::epsilon),
                   PredictionType::flow_prediction));
  EXPECT_TRUE(runs("euler", file_of(PredictionType::flow_prediction),
                   PredictionType::epsilon));
  EXPECT_TRUE(runs("flow", {}));  // no file: nothing is known
  EXPECT_TRUE(options_of("dpm++2m", {}, PredictionType::flow_prediction)
                  .use_flow_sigmas);
  EXPECT_FALSE(runs("ddim", {}, PredictionType::flow_prediction));
}

TEST(ModelPrediction, TakesTheFlowPathAndItsShift) {
  const ScheduleOptions options =
      options_of("unipc", file_of(PredictionType::flow_prediction));
  EXPECT_TRUE(options.use_flow_sigmas);
  EXPECT_EQ(options.flow_shift, 3.0);
  EXPECT_EQ(options.prediction_type, PredictionType::flow_prediction);
  SamplerConfig shifted;
  shifted.name = "dpm++2m";
  shifted.shift = 5;
  EXPECT_EQ(schedule_options(shifted, file_of(PredictionType::flow_prediction),
                             kPlace, {})
                .flow_shift,
            5.0);
}

TEST(ModelPrediction, KnowsFlowModelsByTheirSigmas) {
  const std::string flow = file("UniPCMultistepScheduler",
                                R"("prediction_type": "flow_prediction",
                                   "use_flow_sigmas": true, "flow_shift": 3)");
  EXPECT_TRUE(runs("", flow));
  EXPECT_TRUE(runs("dpm++2m", flow));
  EXPECT_TRUE(runs("flow", flow));
  EXPECT_FALSE(runs("euler", flow));
  EXPECT_FALSE(runs("", file("UniPCMultistepScheduler",
                             R"("prediction_type": "flow_prediction")")));
}

TEST(ModelPrediction, RefusesModelsThatNoSolverReads) {
  for (const std::string& text :
       {file("EDMEulerScheduler"),
        file("EulerDiscreteScheduler", R"("timestep_type": "continuous")")}) {
    EXPECT_FALSE(runs("euler", text)) << text;
    EXPECT_FALSE(runs("dpm++2m", text)) << text;
  }
  EXPECT_TRUE(runs("dpm++2m", file("LMSDiscreteScheduler")));
}

TEST(ModelPrediction, NotesWhatIsUnusual) {
  const auto notes_of = [](const std::string& sampler, const std::string& text,
                           std::optional<PredictionType> said) {
    SamplerConfig config;
    config.name = sampler;
    config.prediction_type = said;
    return prediction_notes(config, model_prediction(text, kPlace),
                            schedule_options(config, text, kPlace, {}));
  };
  const std::string epsilon = file_of(PredictionType::epsilon);
  EXPECT_TRUE(notes_of("euler", epsilon, {}).empty());
  EXPECT_TRUE(notes_of("euler", epsilon, PredictionType::epsilon).empty());
  ASSERT_EQ(notes_of("euler", epsilon, PredictionType::v_prediction).size(),
            1U);
  const auto taken =
      notes_of("dpm++2m", file_of(PredictionType::flow_prediction), {});
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_NE(taken[0].find("shift of 3"), std::string::npos) << taken[0];
}

}  // namespace
}  // namespace troupe::config
