#include "actors/cli/earlier_speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "actors/cli/cache_file.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/log.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "troupe_speeds";
constexpr int kVersion = 1;
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20U;

/// The oldest first.
using SpeedLines = std::vector<std::pair<std::string, double>>;

/// A row never takes so little time, or so much.
bool is_plausible(double seconds) { return seconds > 1e-9 && seconds < 1e6; }

/// Nothing: damaged, or not ours.
std::optional<SpeedLines> speeds_in(const std::string& text) {
  const nlohmann::json file = nlohmann::json::parse(text, nullptr, false);
  // No value is copied: the library's copy calls itself for each level.
  if (!file.is_object() || !file.contains(kFormat) ||
      file[kFormat] != kVersion || !file.contains("seconds_per_row")) {
    return std::nullopt;
  }
  const nlohmann::json& rows = file["seconds_per_row"];
  if (!rows.is_array() || rows.size() > SpeedCache::kMostSpeeds) {
    return std::nullopt;
  }
  SpeedLines lines;
  for (const nlohmann::json& row : rows) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() ||
        !row[1].is_number() || !is_plausible(row[1].get<double>())) {
      return std::nullopt;
    }
    lines.emplace_back(row[0].get<std::string>(), row[1].get<double>());
  }
  return lines;
}

std::string speed_text(const SpeedLines& lines) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [name, seconds] : lines) {
    rows.push_back({name, seconds});
  }
  return nlohmann::json{{kFormat, kVersion}, {"seconds_per_row", rows}}.dump(
      1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Nothing: the file exists, but cannot be used.
std::optional<SpeedLines> read_speeds(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return SpeedLines{};
  }
  try {
    return speeds_in(read_file(path, kMostFileBytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// With fewer rows the first pass would count too much: it also prepares
/// weights.
constexpr std::int64_t kLeastRows = 8;

std::filesystem::path cache_folder(const config::Config& config,
                                   const samplers::MethodOptions& method) {
  return samplers::num_segments(method) == 1 ? config.cache : "";
}

}  // namespace

SpeedCache::SpeedCache(const fs::path& folder) : folder_(folder) {
  if (!is_on()) {
    return;
  }
  const std::optional<SpeedLines> lines = read_speeds(path());
  if (!lines) {
    log_message(LogLevel::warning,
                path().string() +
                    ": damaged or not Troupe's; speeds are measured again");
    return;
  }
  known_ = Speeds(lines->begin(), lines->end());
}

fs::path SpeedCache::path() const { return folder_ / "speeds.json"; }

double SpeedCache::find(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? 0 : found->second;
}

void SpeedCache::keep(const Speeds& measured) const {
  if (!is_on() || measured.empty()) {
    return;
  }
  try {
    make_cache_folder(folder_);
    // Who does not get the lock within five seconds may lose a speed that
    // another process has just added; it is measured again.
    const CacheLock lock(folder_ / "speeds.lock", [glances = 0]() mutable {
      constexpr int kMostGlances = 100;
      return ++glances < kMostGlances;
    });
    add(measured);
  } catch (const Error& failure) {
    log_message(LogLevel::warning, "speeds are not kept: " + failure.place() +
                                       ": " + failure.message());
  }
}

void SpeedCache::add(const Speeds& measured) const {
  SpeedLines lines = read_speeds(path()).value_or(SpeedLines{});
  std::erase_if(lines, [&measured](const auto& line) {
    return measured.contains(line.first);
  });
  for (const auto& [name, seconds] : measured) {
    if (is_plausible(seconds) && name.size() <= kLongestName) {
      lines.emplace_back(name, seconds);
    }
  }
  if (lines.size() > kMostSpeeds) {
    lines.erase(lines.begin(),
                lines.end() - static_cast<std::ptrdiff_t>(kMostSpeeds));
  }
  const std::string text = speed_text(lines);
  write_file(path(), std::as_bytes(std::span(text)));
}

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
