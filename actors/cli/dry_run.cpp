#include "actors/cli/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/forecast.h"
#include "actors/cli/job_of_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/progress_printer.h"
#include "actors/job_fields.h"
#include "config/parse_value.h"
#include "config/schedule_options.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {

/// What --print-job prints.
struct PrintedJob {
  std::string name;
  JobRecord record;
};

void visit_fields(auto& visit, AnyConst<PrintedJob> auto& r) {
  visit({"job", "name of the job: a hash of all that follows"}, r.name);
  visit_fields(visit, r.record);
}

std::vector<JsonField> job_json_fields() { return json_rows_of<PrintedJob>(); }

namespace {

const char* verdict(std::uint64_t needed, std::uint64_t available) {
  return needed <= available ? "fits" : "does not fit";
}

std::string time_text(const PlanSummary& plan) {
  constexpr double kClock = 100;  // from here on hours and minutes read better
  if (!plan.predicted_seconds) {
    return "not predicted: " + plan.measured;
  }
  const double seconds = *plan.predicted_seconds;
  return fmt::format("{} {}, loading not counted ({})", plan.prediction,
                     seconds < kClock ? fmt::format("{:.3g} s", seconds)
                                      : render_seconds(seconds),
                     plan.measured);
}

/// ", 1.4 × the rows of the sequential run".
std::string compared_with_sequential(const PlanSummary& plan) {
  if (plan.sequential_rows <= 0) {
    return {};  // nothing is left to do
  }
  constexpr double kNearlyOne = 0.005;
  const double times = plan.forward_rows / plan.sequential_rows;
  return std::abs(times - 1) < kNearlyOne
             ? ", as the sequential run"
             : fmt::format(", {:.3g} × the rows of the sequential run", times);
}

/// ", decoded by a VAE in tiles of 512x512 pixels".
std::string decoder_text(const ModelSource& source) {
  if (!source.decoder()) {
    return {};
  }
  const std::int64_t side = source.vae_tile() * source.decoder()->scale();
  return side == 0 ? ", decoded by a VAE"
                   : ", decoded by a VAE in tiles of " +
                         config::to_string(config::PictureSize{side, side}) +
                         " pixels";
}

/// "stale, 2 parts, cut as an onion: 3.75 MiB a model call from part to part".
std::string method_text(const JobRequest& request, const PlanSummary& plan) {
  const samplers::MethodOptions& method = request.job.method;
  const int parts = samplers::num_network_parts(method);
  return parts < 2 ? describe_method(request)
                   : fmt::format(
                         "{}, {} parts, cut as {}: {} a model call from part "
                         "to part",
                         method.kind->name, parts,
                         method.cut == samplers::CutShape::onion ? "an onion"
                                                                 : "a chain",
                         human_bytes(plan.crossing_bytes));
}

/// What is to encode prompts in this process.
std::optional<EncoderPlan> encoder_plan(const JobRequest& request,
                                        const MemoryInfo& memory) {
  if (request.prompts.source == nullptr || request.encodes_elsewhere) {
    return std::nullopt;
  }
  const auto& [by, needed] = request.encoder;
  const bool is_gpu = by.is_gpu();
  return EncoderPlan{
      by.label(),
      std::string(to_string(by.compute)),
      is_gpu ? needed.gpu : needed.host,
      is_gpu ? by.available_bytes : memory.available_bytes,
      request.prompts.num_wanted(),
      request.prompt_bytes,
      request.prompt_bytes - TensorStore::kept_in_memory(request.prompt_bytes),
      TensorStore::folder().string()};
}

void print_shard_plans(const PlanSummary& plan) {
  if (plan.shard_plans.empty()) {
    return;
  }
  fmt::print(
      "\n--shards  plan    share of a pass  exchanges  received    memory  "
      "pass "
      "of one image\n");
  for (const ShardPlan& one : plan.shard_plans) {
    fmt::print("{:>8}  {:<7} {:>13.1f} %  {:>9}  {:>8}  {:>8}  {}\n",
               one.shards, one.plan, 100 * one.share, one.exchanges,
               human_bytes(one.received_bytes), human_bytes(one.memory_bytes),
               one.row_seconds
                   ? fmt::format("{}{:.3g} s", one.is_measured ? "" : "~",
                                 *one.row_seconds)
                   : "");
  }
  fmt::print(
      "Figures are those of the slowest shard in a pass of one image. Each "
      "shard "
      "needs a device or free cores.\n");
  const auto is_predicted = [](const ShardPlan& one) {
    return one.row_seconds && !one.is_measured;
  };
  if (std::ranges::any_of(plan.shard_plans, is_predicted)) {
    fmt::print("~: predicted from a pass that was measured, by the share{}\n",
               plan.link_seconds
                   ? fmt::format(", and from the link of two GPUs: {}/s, and "
                                 "{:.3g} µs for each "
                                 "exchange",
                                 human_bytes(static_cast<std::uint64_t>(
                                     *plan.link_bytes_per_second)),
                                 *plan.link_seconds * 1e6)
                   : std::string());
  }
}

void print_plan(const JobRequest& request, const RunOutputs& outputs,
                const PlanSummary& plan) {
  fmt::print("model      {} ({} blocks, latents {}{})\n", request.source.name(),
             request.source.num_blocks(),
             to_string(request.source.latent_shape()),
             decoder_text(request.source));
  if (!request.source.picture_size().empty()) {
    const Shape decoded = request.source.decoded_shape();
    const Shape picture = request.source.pixel_shape();
    fmt::print("size       {}x{}, sampled at the bin {}x{}\n", picture[2],
               picture[1], decoded[2], decoded[1]);
  }
  fmt::print("images     {} (samples {}), {} already there\n", plan.images,
             config::to_string(request.samples()), outputs.skipped.size());
  fmt::print("sampler    {}, {} steps, guidance {}\n",
             config::solver_label(request.schedule.options()),
             request.schedule.num_steps(), request.job.guidance.scale);
  fmt::print("method     {}\n", method_text(request, plan));
  fmt::print("placement  {}, {}\n", describe_company(request),
             request.dtypes());
  if (plan.encoder) {
    const EncoderPlan& encoder = *plan.encoder;
    fmt::print("prompts    {}, encoded on {} in {}: {} needed, {} free: {}\n",
               encoder.prompts, encoder.device, encoder.dtype,
               human_bytes(encoder.memory_bytes),
               human_bytes(encoder.available_memory_bytes),
               verdict(encoder.memory_bytes, encoder.available_memory_bytes));
    fmt::print(
        "           {} of encoded prompts are kept{}\n",
        human_bytes(encoder.prompt_bytes),
        encoder.file_bytes == 0
            ? ""
            : fmt::format(", {} of it in a file in {}",
                          human_bytes(encoder.file_bytes), encoder.folder));
  }
  for (const DevicePlan& gpu : plan.gpus) {
    fmt::print("device     {}: {} at once, {} needed, {} free: {}\n", gpu.name,
               counted(static_cast<std::uint64_t>(gpu.rows), "image"),
               human_bytes(gpu.memory_bytes),
               human_bytes(gpu.available_memory_bytes),
               verdict(gpu.memory_bytes, gpu.available_memory_bytes));
  }
  fmt::print("memory     {} needed, {} available: {} ({})\n",
             human_bytes(plan.memory_bytes),
             human_bytes(plan.available_memory_bytes),
             verdict(plan.memory_bytes, plan.available_memory_bytes),
             plan.memory_limit);
  fmt::print("cost       {}{:.0f} forward rows{}, {:.3g} TFLOP\n",
             plan.prediction == "about" ? "" : plan.prediction + " ",
             plan.forward_rows, compared_with_sequential(plan),
             plan.flops / 1e12);
  fmt::print("time       {}\n", time_text(plan));
  print_shard_plans(plan);
}

/// JSON has no infinity, and a job's numbers read back to the same bits.
void spell_infinities(nlohmann::ordered_json& json) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    json = config::to_text(json.get<double>());
  } else if (json.is_structured()) {
    for (nlohmann::ordered_json& inner : json) {
      spell_infinities(inner);
    }
  }
}

}  // namespace

int run_dry(Invocation& invocation, const JobRequest& request,
            const RunOutputs& outputs) {
  PlanSummary plan =
      forecast(request, request.num_samples() - outputs.skipped.size(),
               outputs.pictures(), *invocation.stop);
  // The encoders are let go before the network is read.
  plan.memory_bytes =
      std::max(request.required_bytes, request.encoder.memory.host);
  const MemoryInfo memory = memory_info();
  plan.available_memory_bytes = memory.available_bytes;
  plan.memory_limit = to_string(memory.binding());
  plan.encoder = encoder_plan(request, memory);
  for (const JobDevice& device : request.devices) {
    if (device.is_gpu() && device.is_used()) {
      plan.gpus.push_back({device.label(), device.workers, device.rows,
                           std::string(to_string(device.compute)),
                           device.required_bytes, device.available_bytes});
    }
  }
  RunSummary& summary = invocation.summary;
  summary.status = "planned";
  summary.plan = plan;
  invocation.take_last_word();
  if (invocation.config.json) {
    fmt::print("{}\n", to_json(summary));
  } else {
    print_plan(request, outputs, plan);
  }
  return 0;
}

int print_job(Invocation& invocation, const JobRequest& request,
              const RequiredClass& required) {
  require(!request.encodes_elsewhere, Errc::invalid_argument, "--print-job",
          "a worker is to encode the prompts, and nobody comes to a job that "
          "is printed",
          "give --encode-on here, or encoded prompts with --prompt-embeds");
  const std::uint64_t weights =
      read_weights_hash(request.source, *invocation.stop);
  required.check(request, weights);
  const JobConditions conditions = conditions_of(request, *invocation.stop);
  const JobRecord job = record_of(request, conditions, weights,
                                  execution_classes(request, weights));
  check(job, values_of(request, conditions), request.source.table());
  invocation.summary.status = "planned";
  invocation.take_last_word();
  PrintedJob printed = {to_hex(hash_of(job)), job};
  std::string& name = printed.record.model.name;
  name = printable(name, name.size());  // a folder's: it may be anything
  const bool is_json = invocation.config.json;
  nlohmann::ordered_json json =
      is_json ? document(invocation.summary, printed) : json_of(printed);
  spell_infinities(json);
  fmt::print("{}\n", json.dump(is_json ? -1 : 2, ' ', false,
                               nlohmann::json::error_handler_t::replace));
  return 0;
}

}  // namespace troupe::actors
