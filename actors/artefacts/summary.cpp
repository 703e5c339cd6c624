#include "actors/artefacts/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/core/exit_codes.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;

void add_if_any(ordered_json& to, const char* key, const std::string& text) {
  if (!text.empty()) {
    to[key] = text;
  }
}

ordered_json image_json(const ImageSummary& image) {
  ordered_json out = {{"index", image.index},
                      {"seed", image.seed},
                      {"seed_text", std::to_string(image.seed)},
                      {"class", image.class_id},
                      {"class_name", image.class_name},
                      {"path", image.path},
                      {"latents_xxh3", image.latents_xxh3},
                      {"status", image.status}};
  if (image.prompt) {
    out["prompt"] = *image.prompt;
  }
  add_if_any(out, "message", image.message);
  add_if_any(out, "execution_class", image.execution_class);
  return out;
}

ordered_json devices_json(const RunSummary& summary) {
  ordered_json out = ordered_json::array();
  for (const DeviceSummary& device : summary.devices) {
    out.push_back({{"name", device.name}, {"status", device.status}});
    add_if_any(out.back(), "cause", device.cause);
  }
  return out;
}

ordered_json gpus_json(const PlanSummary& plan) {
  ordered_json out = ordered_json::array();
  for (const DevicePlan& gpu : plan.gpus) {
    out.push_back({{"name", gpu.name},
                   {"workers", gpu.workers},
                   {"rows", gpu.rows},
                   {"dtype", gpu.dtype},
                   {"memory_bytes", gpu.memory_bytes},
                   {"available_memory_bytes", gpu.available_memory_bytes}});
  }
  return out;
}

std::int64_t whole_rows(double rows) {
  constexpr double kMost = 9e18;
  return std::llround(std::min(rows, kMost));
}

ordered_json encoder_json(const EncoderPlan& encoder) {
  return {{"device", encoder.device},
          {"dtype", encoder.dtype},
          {"memory_bytes", encoder.memory_bytes},
          {"available_memory_bytes", encoder.available_memory_bytes},
          {"prompts", encoder.prompts},
          {"prompt_bytes", encoder.prompt_bytes},
          {"file_bytes", encoder.file_bytes}};
}

ordered_json plan_json(const PlanSummary& plan) {
  ordered_json out = {{"images", plan.images},
                      {"memory_bytes", plan.memory_bytes},
                      {"available_memory_bytes", plan.available_memory_bytes},
                      {"memory_limit", plan.memory_limit}};
  if (plan.encoder) {
    out["encoder"] = encoder_json(*plan.encoder);
  }
  out.update(ordered_json{
      {"gpus", gpus_json(plan)},
      {"forward_rows", whole_rows(plan.forward_rows)},
      {"flops", plan.flops},
      {"crossing_bytes", plan.crossing_bytes},
      {"predicted_seconds", plan.predicted_seconds
                                ? ordered_json(*plan.predicted_seconds)
                                : ordered_json()},
      {"prediction", plan.prediction},
      {"measured", plan.measured},
      {"sequential_forward_rows", whole_rows(plan.sequential_rows)}});
  return out;
}

ordered_json base_json(const RunSummary& s) {
  ordered_json out = envelope(s);
  out.update({{"method", s.method},
              {"sampler", s.sampler},
              {"steps", s.steps},
              {"guidance", s.guidance},
              {"nfe", s.nfe},
              {"rounds", s.rounds},
              {"workers", s.workers},
              {"threads", s.threads},
              {"dtype", s.dtype},
              {"wall_seconds", s.wall_seconds},
              {"encode_seconds", s.encode_seconds},
              {"load_seconds", s.load_seconds},
              {"compute_seconds", s.compute_seconds},
              {"images_per_second", s.images_per_second},
              {"peak_memory_bytes", s.peak_memory_bytes},
              {"bytes_sent", s.bytes_sent},
              {"bytes_received", s.bytes_received},
              {"recoveries", s.recoveries},
              {"devices", devices_json(s)},
              {"nodes", nodes_json(s.nodes)},
              {"execution_class", s.execution_class}});
  add_if_any(out, "cancelled_by", s.cancelled_by);
  add_if_any(out, "latents_xxh3", s.latents_xxh3);
  add_if_any(out, "bits", s.bits);
  add_if_any(out, "cut", s.cut);
  add_if_any(out, "encoder_device", s.encoder_device);
  out["images"] = ordered_json::array();
  for (const ImageSummary& image : s.images) {
    out["images"].push_back(image_json(image));
  }
  out["notes"] = s.notes;
  if (s.plan) {
    out["plan"] = plan_json(*s.plan);
  }
  return out;
}

}  // namespace

ordered_json envelope(const RunSummary& summary) {
  return {{"schema", kSchema},
          {"version", summary.version},
          {"verb", summary.verb},
          {"status", summary.status},
          {"exit_code", summary.exit_code}};
}

namespace {

ordered_json means_json(const ProcessMeans& means) {
  ordered_json out = ordered_json::array();
  for (const DeviceMeans& one : means.devices) {
    const bool is_cpu = one.device.kind == DeviceKind::cpu;
    out.push_back(
        {{"name", label_of(one)},
         {"memory_bytes", is_cpu ? means.memory_bytes : one.memory_bytes}});
  }
  return out;
}

}  // namespace

ordered_json nodes_json(const std::vector<NodeStatus>& nodes) {
  ordered_json out = ordered_json::array();
  for (const NodeStatus& node : nodes) {
    out.push_back(
        {{"name", node.name},
         {"process", node.process},
         {"workers", node.workers},
         {"threads", node.threads},
         {"memory_bytes", node.means.memory_bytes},
         {"available_memory_bytes", node.means.available_memory_bytes},
         {"devices", means_json(node.means)},
         {"execution_classes", node.execution_classes},
         {"tasks", node.tasks},
         {"rows", node.rows},
         {"rows_per_second", node.rows_per_second()},
         {"busy_seconds", node.busy_seconds},
         {"busy_share", node.busy_share},
         {"bytes_sent", node.bytes_sent},
         {"bytes_received", node.bytes_received},
         {"losses", node.losses},
         {"status", node.status}});
    add_if_any(out.back(), "cause", node.cause);
  }
  return out;
}

ordered_json to_json(const Error& error) {
  return {{"code", to_string(error.code())},
          {"where", error.place()},
          {"message", error.message()},
          {"hint", error.hint()},
          {"retryable", is_retryable(error.code())}};
}

std::string to_json(const RunSummary& summary) {
  return dump(base_json(summary));
}

std::string failure_json(RunSummary summary, const Error& error) {
  const bool stopped =
      error.code() == Errc::terminated || error.code() == Errc::interrupted;
  summary.status = error.code() == Errc::cancelled ? "cancelled"
                   : stopped                       ? "stopped"
                                                   : "failed";
  summary.exit_code = exit_code(error.code());
  ordered_json out =
      summary.verb == "sample" ? base_json(summary) : envelope(summary);
  out["error"] = to_json(error);
  return dump(out);
}

void say(std::FILE* to, const std::string& line) {
  const std::string text = line + "\n";
  (void)std::fwrite(text.data(), 1, text.size(), to);
}

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string one_line(const Error& error) {
  // A path alone may have 4096 bytes; what is wrong with it must still be seen.
  constexpr std::size_t kLongestPlace = 500;
  constexpr std::size_t kLongestMessage = 1000;
  constexpr std::size_t kLongestHint = 400;
  std::string line = "troupe: [" + printable(error.place(), kLongestPlace) +
                     "] " + printable(error.message(), kLongestMessage);
  if (!error.hint().empty()) {
    line += "; " + printable(error.hint(), kLongestHint);
  }
  return line;
}

}  // namespace troupe::actors
