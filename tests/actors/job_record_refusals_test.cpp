#include <gtest/gtest.h>

#include <functional>

#include "actors/job_record.h"
#include "kernels/core/error.h"
#include "tests/actors/random_records.h"

// Which records are refused, and in what words.
namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

const MethodOptions kStale{.kind = MethodKind::stale, .num_segments = 2};

samplers::ScheduleOptions schedule() {
  samplers::ScheduleOptions options;
  options.solver = samplers::solver_table()[0];
  options.num_inference_steps = 5;
  options.eta = 0.5;
  return options;
}

/// What `check` says of a record that was changed; empty: nothing.
std::string objection(const std::function<void(JobRecord&)>& change,
                      const MethodOptions& method = kStale) {
  JobRecord job = small_job(schedule(), method);
  change(job);
  try {
    check(job);
    return {};
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Errc::corrupt_file ||
                error.code() == Errc::unsupported);
    return error.place() + ": " + error.message();
  }
}

void expect_objection(const std::string& words,
                      const std::function<void(JobRecord&)>& change) {
  EXPECT_NE(objection(change).find(words), std::string::npos)
      << "expected '" << words << "', got '" << objection(change) << "'";
}

TEST(JobRecord, OfAnOnionKeepsSkipsAtHome) {
  const MethodOptions method{.kind = MethodKind::pipeline,
                             .cut = samplers::CutShape::onion};
  const auto with = [&](std::vector<int> cuts, std::vector<double> speeds) {
    return objection(
        [&](JobRecord& j) {
          j.model.denoiser_config =
              R"({"_class_name":"UNet2DConditionModel","sample_size":8,)"
              R"("attention_head_dim":2,"block_out_channels":[8,16],)"
              R"("cross_attention_dim":8,"layers_per_block":1,)"
              R"("down_block_types":["CrossAttnDownBlock2D","DownBlock2D"],)"
              R"("norm_num_groups":4,)"
              R"("up_block_types":["UpBlock2D","CrossAttnUpBlock2D"]})";
          j.latent_shape = {4, 8, 8};
          j.cuts = std::move(cuts);
          j.method.segment_speeds = std::move(speeds);
        },
        method);
  };
  EXPECT_EQ(with({0, 1, 6, 8}, {}), "");
  EXPECT_EQ(with({0, 3, 4, 8}, {2, 1}), "");
  EXPECT_TRUE(
      with({0, 2, 6, 8}, {}).ends_with("a skip crosses a cut of an onion"));
  EXPECT_NE(with({0, 4, 8}, {}).find("expected 3 segments"), std::string::npos);
  EXPECT_NE(with({0, 1, 6, 8}, {1, 1, 1}).find("each of 2 parts"),
            std::string::npos);
}

TEST(JobRecord, NamesTheSidesOfPicturesThatAreCut) {
  const auto with = [](std::vector<std::int64_t> sides) {
    return objection([&](JobRecord& j) {
      j.model.decoder_config =
          R"({"_class_name":"AutoencoderKL","latent_channels":2,)"
          R"("block_out_channels":[4],"norm_num_groups":2,)"
          R"("up_block_types":["UpDecoderBlock2D"],"layers_per_block":1})";
      j.picture_size = std::move(sides);
    });
  };
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({1, 16384}), "");
  for (const std::vector<std::int64_t>& sides :
       {std::vector<std::int64_t>{8}, {8, 8, 8}, {0, 8}, {8, -8}, {8, 16385}}) {
    EXPECT_NE(with(sides).find("picture_size"), std::string::npos)
        << sides.size() << " sides, " << sides[0];
  }
}

TEST(JobRecord, IsRefusedWithItsFieldNamed) {
  EXPECT_EQ(objection([](JobRecord&) {}), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_objection("model", [](JobRecord& j) { j.model.denoiser_config = ""; });
  expect_objection("FluxTransformer", [](JobRecord& j) {
    j.model.denoiser_config = R"({"_class_name":"FluxTransformer2DModel"})";
  });
  expect_objection("latent_shape", [](JobRecord& j) { j.latent_shape = {}; });
  expect_objection("latent_shape", [](JobRecord& j) {
    j.latent_shape = {2, 8, 9};
  });
  expect_objection("latent_shape", [](JobRecord& j) {
    j.latent_shape = {2, -8, -8};
  });
  expect_objection("latent_shape", [](JobRecord& j) {
    j.latent_shape = {2, std::int64_t{1} << 40, std::int64_t{1} << 40};
  });
  expect_objection("begin, end", [](JobRecord& j) { j.begin = j.end; });
  expect_objection("guidance_scale",
                   [=](JobRecord& j) { j.guidance.scale = nan; });
  expect_objection("guidance_rescale",
                   [=](JobRecord& j) { j.guidance.rescale = nan; });
  expect_objection("guidance_rescale",
                   [](JobRecord& j) { j.guidance.rescale = 1.5; });
  for (const samplers::SigmaRange& bad :
       {samplers::SigmaRange{2, 1}, samplers::SigmaRange{-1, 1},
        samplers::SigmaRange{nan, 1}, samplers::SigmaRange{0, nan}}) {
    expect_objection("guidance_interval",
                     [=](JobRecord& j) { j.guidance.interval = bad; });
  }
  expect_objection("conditions", [](JobRecord& j) { j.conditions.clear(); });
  expect_objection("init_latents", [](JobRecord& j) {
    j.init_latents = {1, 2};  // of three samples
  });
  expect_objection("guesses", [](JobRecord& j) { j.guesses = {1}; });
  const auto guess = [](JobRecord& j) {
    j.method = {.kind = samplers::MethodKind::picard,
                .initial_guess = samplers::InitialGuess::trajectory};
  };
  expect_objection("guesses", guess);
  expect_objection("guesses", [=](JobRecord& j) {
    guess(j);
    j.guesses = {1, 2};  // of three samples
  });
  expect_objection("execution_classes",
                   [](JobRecord& j) { j.execution_classes.clear(); });
  expect_objection("execution_classes", [](JobRecord& j) {
    j.execution_classes[0].dtype = DType::u8;
  });
  expect_objection("execution_classes",
                   [](JobRecord& j) { j.execution_classes[0].tf32 = true; });
  expect_objection("16 hexadecimal digits",
                   [](JobRecord& j) { j.execution_classes[0].name = "avx2"; });
  expect_objection("begin, end", [](JobRecord& j) { j.end = ~0ULL; });
  expect_objection("expected AutoencoderKL",
                   [](JobRecord& j) { j.model.decoder_config = "{}"; });
  expect_objection("latent_channels", [](JobRecord& j) {
    j.model.decoder_config =
        R"({"_class_name":"AutoencoderKL","latent_channels":3})";
  });
  expect_objection("picture_size", [](JobRecord& j) {
    j.picture_size = {8, 8};  // nothing is decoded
  });
  expect_objection("dtype", [](JobRecord& j) { j.dtype = DType::i64; });
  for (const int blocks : {-1, 0, 1, 2}) {
    expect_objection("ring_blocks: got " + std::to_string(blocks) +
                         ", expected none or 2 to 1",
                     [=](JobRecord& j) { j.ring_blocks = blocks; });
  }
  expect_objection("vae_tile: got 16, expected 0",
                   [](JobRecord& j) { j.vae_tile = 16; });
  expect_objection("the decoder's own 4", [](JobRecord& j) {
    j.model.decoder_config =
        R"({"_class_name":"AutoencoderKL","latent_channels":2,)"
        R"("block_out_channels":[32,32],"sample_size":8})";
    j.vae_tile = 8;
  });
  expect_objection("tensors_xxh3", [](JobRecord& j) {
    j.model.tensors_xxh3 = {2, 1};
  });
  expect_objection("cuts", [](JobRecord& j) { j.cuts = {0, 2}; });
  expect_objection("cuts", [](JobRecord& j) { j.cuts = {0, 0, 2}; });
  expect_objection("cuts", [](JobRecord& j) { j.cuts = {0, 3, 2}; });
  expect_objection("segment_speeds", [](JobRecord& j) {
    j.method.segment_speeds = {1, 0};
  });
  expect_objection("segment_speeds",
                   [](JobRecord& j) { j.method.segment_speeds = {1}; });
  expect_objection("schedule", [](JobRecord& j) { j.schedule.levels.clear(); });
  expect_objection("schedule",
                   [=](JobRecord& j) { j.schedule.levels[1].sigma = nan; });
  expect_objection("method", [](JobRecord& j) { j.method.num_segments = 0; });
  expect_objection("method",
                   [](JobRecord& j) { j.method.warmup_steps = 1000; });
  expect_objection("method", [](JobRecord& j) { j.method.ages = {-1}; });
}

}  // namespace
}  // namespace troupe::actors
