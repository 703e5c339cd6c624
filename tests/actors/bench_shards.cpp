// How much faster several groups of one thread compute a pass than one group,
// and how much of their summed speed they use where one group is slowed by
// half: it sleeps as long as it computes.
//   bench_shards NAME@SIDE f32|bf16 [GROUPS [PASSES]]
// NAME: a bundled model with random weights; SIDE: of the latents. Ways take
// turns, so that other load of the machine slows all ways alike. Prints medians
// without the first three passes, in which shares find their size. Asserts
// nothing.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/thread_team.h"
#include "config/bundled_models.h"
#include "kernels/core/noise.h"
#include "kernels/core/system/machine.h"
#include "models/description.h"
#include "models/files/weight_source.h"
#include "tests/actors/delegating_shard.h"

namespace {

using namespace troupe;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A rank of half the speed.
class SlowRank final : public actors::DelegatingShard {
 public:
  using DelegatingShard::DelegatingShard;

  void meet() override {
    sleep();
    DelegatingShard::meet();
    begin_ = Clock::now();
  }
  void sleep() const {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(seconds_since(begin_)));
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

struct Way {
  std::string name;
  int threads = 1;
  int groups = 1;
  AttentionPlan plan = AttentionPlan::gather;
  bool is_slowed = false;
  std::unique_ptr<ExecContext> ctx = {};
  std::vector<double> seconds = {};
};

double median(std::vector<double> values) {
  constexpr std::ptrdiff_t kWarmUp = 3;
  values.erase(values.begin(),
               values.begin() + std::min(kWarmUp, std::ssize(values) - 1));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "";
  const auto at = model.find('@');
  if (argc < 3 || at == std::string::npos) {
    std::fprintf(stderr,
                 "usage: bench_shards NAME@SIDE f32|bf16 [GROUPS [PASSES]]\n");
    return 2;
  }
  const DType compute =
      std::string(argv[2]) == "bf16" ? DType::bf16 : DType::f32;
  const int groups = argc > 3 ? std::atoi(argv[3]) : 2;
  const int passes = argc > 4 ? std::atoi(argv[4]) : 9;
  const models::Json config = models::Json::parse(
      config::find_bundled_model(model.substr(0, at)).denoiser, model);
  const auto description =
      models::find_denoiser(config, config.string("_class_name", ""))
          .describe(config);
  ExecContext loading(num_usable_cores());
  models::RandomWeights weights(loading, 0);
  const auto network = description->load(loading, compute, weights);
  const std::int64_t side = std::atoi(model.c_str() + at + 1);
  const Shape shape = description->nearest_latents(
      {description->latent_shape()[0], side, side});
  const auto condition = description->any_condition({});

  std::vector<Way> ways;
  ways.push_back({.name = "one thread"});
  ways.push_back({.name = "threads, no shards", .threads = groups});
  for (const bool is_slowed : {false, true}) {
    for (const AttentionPlan plan :
         {AttentionPlan::gather, AttentionPlan::ulysses}) {
      ways.push_back(
          {.name = std::string(plan == AttentionPlan::gather ? "gather"
                                                             : "ulysses") +
                   (is_slowed ? ", one slowed" : ""),
           .threads = groups,
           .groups = groups,
           .plan = plan,
           .is_slowed = is_slowed});
    }
  }
  Tensor latents(shape, DType::f32);
  fill_normal({}, latents);
  for (Way& way : ways) {
    way.ctx = std::make_unique<ExecContext>(way.threads);
    if (way.groups > 1) {
      way.ctx->set_team(
          std::make_shared<actors::ThreadTeam>(*way.ctx, way.groups, way.plan));
    }
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (Way& way : ways) {
      const double timestep = 500;
      const auto prepared =
          network->prepare(*way.ctx, condition, std::span(&timestep, 1));
      const models::PreparedCondition* const conditions = prepared.get();
      Tensor output(with_channels(shape, network->info().out_channels),
                    DType::f32);
      const models::Batch batch{std::span(&latents, 1), std::span(&timestep, 1),
                                std::span(&conditions, 1), shape};
      const Clock::time_point begin = Clock::now();
      with_ranks(*way.ctx, [&](ExecContext& ctx, ShardContext& shard) {
        if (way.is_slowed && shard.rank() == 1) {
          SlowRank slow(shard);
          network->predict(ctx, slow, batch, std::span(&output, 1));
          return slow.sleep();
        }
        network->predict(ctx, shard, batch, std::span(&output, 1));
      });
      way.seconds.push_back(seconds_since(begin));
    }
  }
  const double alone = median(ways[0].seconds);
  for (const Way& way : ways) {
    const double seconds = median(way.seconds);
    std::printf("%-20s %8.3f s  %5.2f x", way.name.c_str(), seconds,
                alone / seconds);
    if (way.is_slowed) {
      std::printf("  used of the summed speed %.3f",
                  alone / seconds / (groups - 0.5));
    }
    std::printf("\n");
  }
}
