#include "actors/cli/earlier_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/core/hash.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

/// With fewer rows the first pass would count too much: it also prepares
/// weights.
constexpr std::int64_t kLeastRows = 8;

std::filesystem::path cache_folder(const config::Config& config,
                                   const samplers::MethodOptions& method) {
  return samplers::num_segments(method) == 1 ? config.cache : "";
}

}  // namespace

EarlierSpeeds::EarlierSpeeds(const config::Config& config,
                             const JobRequest& request,
                             const samplers::MethodOptions& method,
                             const JobRunner& runner)
    : runner_(runner), cache_(cache_folder(config, method)) {
  const bool has_both_branches =
      request.job.guidance.is_on() && !method.kind->splits_guidance;
  model_ = fmt::format("model {}, latents {}, {} in a row",
                       to_hex(runner.weights_hash()),
                       to_string(request.source.latent_shape()),
                       has_both_branches ? "two branches" : "one branch");
}

std::string EarlierSpeeds::name_of(const std::string& execution_class,
                                   const std::string& device,
                                   int threads) const {
  return fmt::format("class {}, {}, {} threads, {}", execution_class,
                     device.empty() ? "cpu" : device, threads, model_);
}

double EarlierSpeeds::row_seconds(const std::string& execution_class,
                                  const std::string& device,
                                  int threads) const {
  return cache_.find(name_of(execution_class, device, threads));
}

void EarlierSpeeds::begin(JobSpec& job) const {
  if (!cache_.is_on()) {
    return;
  }
  std::size_t num_known = 0;
  for (WorkerTraits& place : job.workers) {
    place.row_seconds =
        row_seconds(runner_.classes().at(place.execution_class).name,
                    device_name(job.means, place.device), place.threads);
    num_known += place.row_seconds > 0 ? 1 : 0;
  }
  log_message(
      LogLevel::info,
      fmt::format("speeds: {} of {} workers here begin with those of "
                  "earlier jobs ({})",
                  num_known, job.workers.size(), cache_.path().string()));
}

void EarlierSpeeds::keep(const JobResult& result) const {
  if (!cache_.is_on()) {
    return;
  }
  struct Sum {
    double seconds = 0;
    double rows = 0;
  };
  std::map<std::string, Sum> sums;
  for (const WorkerSpeed& one : result.speeds) {
    if (one.num_rows < kLeastRows) {
      continue;
    }
    const auto process = std::ranges::find(result.processes, one.traits.process,
                                           &Process::process);
    const std::string device =
        process == result.processes.end()
            ? std::string()
            : device_name(process->means, one.traits.device);
    Sum& sum =
        sums[name_of(runner_.classes().at(one.traits.execution_class).name,
                     device, one.traits.threads)];
    const auto rows = static_cast<double>(one.num_rows);
    sum.seconds += one.row_seconds * rows;
    sum.rows += rows;
  }
  SpeedCache::Speeds speeds;
  for (const auto& [name, sum] : sums) {
    speeds.emplace(name, sum.seconds / sum.rows);
  }
  cache_.keep(speeds);
}

}  // namespace troupe::actors
