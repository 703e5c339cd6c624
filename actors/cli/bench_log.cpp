#include "actors/cli/bench_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "config/python_json.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"

namespace troupe::actors {

/// A pass as an array: a run may have hundreds.
static void to_json(nlohmann::ordered_json& json, const PassBar& bar) {
  json = {bar.worker, bar.segment, bar.step, bar.start, bar.seconds};
}
static void from_json(const nlohmann::ordered_json& json, PassBar& bar) {
  json.at(0).get_to(bar.worker);
  json.at(1).get_to(bar.segment);
  json.at(2).get_to(bar.step);
  json.at(3).get_to(bar.start);
  json.at(4).get_to(bar.seconds);
}

static void to_json(nlohmann::ordered_json& json, const MeasuredPace& pace) {
  json = {pace.row_ms, pace.row_slope, pace.solo_speed,
          pace.spread, pace.first_ms,  pace.start_ms};
}
static void from_json(const nlohmann::ordered_json& json, MeasuredPace& pace) {
  json.at(0).get_to(pace.row_ms);
  json.at(1).get_to(pace.row_slope);
  json.at(2).get_to(pace.solo_speed);
  json.at(3).get_to(pace.spread);
  json.at(4).get_to(pace.first_ms);
  json.at(5).get_to(pace.start_ms);
}

namespace {

using LogJson = nlohmann::ordered_json;

constexpr std::size_t kMostLogBytes = std::size_t{256} << 20U;

/// Between a run and an object. What is unset is left out.
struct RunToJson {
  LogJson& to;
  template <typename T>
  void operator()(const char* key, const T& value) const {
    to[key] = value;
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) const {
    if (value) {
      to[key] = *value;
    }
  }
};
struct RunOfJson {
  const LogJson& from;
  template <typename T>
  void operator()(const char* key, T& value) const {
    from.at(key).get_to(value);
  }
  template <typename T>
  void operator()(const char* key, std::optional<T>& value) const {
    if (from.contains(key)) {
      value = from.at(key).get<T>();
    }
  }
};

auto key_of(const SettingRun& run) {
  return std::tuple(run.steps, run.name, run.index, run.repeat);
}

/// Whether a finished run can be so.
bool is_whole(const SettingRun& run) {
  const bool is_counted =
      run.steps >= 1 && run.seconds > 0 && run.nfe >= 1 && run.rounds >= 1;
  if (run.repeat == kQualityRun) {
    return is_counted && run.label && run.features && !run.features->empty();
  }
  if (run.repeat == kPredictedRun) {
    return is_counted && run.pace;
  }
  const bool has_errors = run.relative_rmse.value_or(-1) >= 0 &&
                          run.picture_mse.value_or(-1) >= 0 && run.ssim;
  return is_counted && run.repeat >= 0 &&
         run.sequential_seconds.value_or(0) > 0 &&
         (run.repeat > 0 || has_errors);
}

/// Refuses runs of something else. `there` and `here`: objects.
void check_same(const std::string& place, const LogJson& there,
                const LogJson& here) {
  LogJson all = here;
  all.update(there);
  for (const auto& [key, ignored] : all.items()) {
    const LogJson old = there.value(key, LogJson());
    const LogJson now = here.value(key, LogJson());
    require(old == now, Errc::invalid_argument, place,
            "the runs there are of another bench: " + key + " is " +
                config::shown(old) + ", here " + config::shown(now),
            "name another folder with --out, or remove this one");
  }
}

[[noreturn]] void fail_in_log(const std::filesystem::path& path,
                              const char* what, int reason = errno) {
  throw Error(reason == ENOSPC || reason == EDQUOT ? Errc::no_space : Errc::io,
              path.string(), std::string(what) + ": " + std::strerror(reason),
              "name another folder with --out");
}

}  // namespace

BenchLog::BenchLog(std::filesystem::path path, const LogJson& said)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND,
                         0666)) {
  if (descriptor_ < 0) {
    fail_in_log(path_, "cannot be opened");
  }
  // As the file has it: bytes that are not UTF-8 are replaced.
  const LogJson what = LogJson::parse(
      said.dump(-1, ' ', false, LogJson::error_handler_t::replace));
  try {
    require(::flock(descriptor_, LOCK_EX | LOCK_NB) == 0,
            Errc::invalid_argument, path_.string(),
            "another process measures there",
            "wait for its end, or name another folder with --out");
    read(what);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

BenchLog::~BenchLog() { ::close(descriptor_); }

void BenchLog::read(const LogJson& what) {
  std::string text = read_file(path_, kMostLogBytes);
  const std::size_t end = text.rfind('\n') + 1;  // 0: no whole line
  if (end < text.size() &&
      ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) {
    fail_in_log(path_, "cannot be shortened");
  }
  text.resize(end);
  if (text.empty()) {
    append(what.dump());
    return;
  }
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  const auto expect = [&](bool good) {
    require(good, Errc::corrupt_file, path_.string(),
            "line " + std::to_string(number) +
                " is not as troupe bench methods wrote it",
            "remove the file, and measure again");
  };
  while (std::getline(lines, line)) {
    ++number;
    const LogJson json = LogJson::parse(line, nullptr, false);
    expect(json.is_object());
    if (number == 1) {
      check_same(path_.string(), json, what);
      continue;
    }
    SettingRun run;
    try {
      RunOfJson reader{json};
      visit_run(reader, run);
    } catch (const LogJson::exception&) {
      expect(false);
    }
    expect(is_whole(run));
    runs_.insert_or_assign(key_of(run), std::move(run));
  }
}

void BenchLog::append(const std::string& line) {
  const std::string text = line + "\n";
  // A line that is written in part is cut off by the next bench.
  const ssize_t written = ::write(descriptor_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    // A write that stops early sets no errno.
    fail_in_log(path_, "cannot be written", written < 0 ? errno : ENOSPC);
  }
}

void BenchLog::add(const SettingRun& run) {
  LogJson json;
  RunToJson writer{json};
  visit_run(writer, run);
  append(json.dump());
  runs_.insert_or_assign(key_of(run), run);
}

std::vector<SettingRun> BenchLog::of(int steps, const std::string& name,
                                     int kind) const {
  std::vector<SettingRun> runs;
  for (const auto& [key, run] : runs_) {
    if (run.steps == steps && run.name == name &&
        std::min(run.repeat, 0) == kind) {
      runs.push_back(run);
    }
  }
  return runs;
}

}  // namespace troupe::actors
