#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/core/fields.h"

namespace troupe::actors {

/// A pass through the network, or a segment of it, for a time line.
struct PassBar {
  int worker = 0;
  int segment = 0;
  int step = 0;      ///< model-call index of its first row
  double start = 0;  ///< in seconds, since the first pass of the run began
  double seconds = 0;
};

/// The residuals of a converging method, by step and sweep: rms(new − old) of
/// the point after the step ÷ the accept rule's scale.
using Residuals = std::vector<std::vector<double>>;

/// What passes took with the workers of a bench: what their emulation is told.
struct MeasuredPace {
  double row_ms = 0;     ///< a row, while all workers are at work
  double row_slope = 1;  ///< each further row of a pass, as a part of that
  /// How many times as fast a worker alone is.
  double solo_speed = 1;
  double spread = 0;    ///< standard deviation of passes, as a part
  double first_ms = 0;  ///< more that the first pass of a worker takes
  double start_ms = 0;  ///< of a run, beside its passes
};

void visit_fields(auto& visit, AnyConst<MeasuredPace> auto& r) {
  visit({"row_ms", "a row, while all workers are at work"}, r.row_ms);
  visit({"row_slope", "each further row, as a part of that"}, r.row_slope);
  visit({"solo_speed", "how many times as fast a worker alone is"},
        r.solo_speed);
  visit({"spread", "standard deviation of passes, as a part"}, r.spread);
  visit({"first_ms", "more that the first pass of a worker takes"}, r.first_ms);
  visit({"start_ms", "of a run, beside its passes"}, r.start_ms);
}

/// One run of one picture by one setting.
struct SettingRun {
  int steps = 0;
  std::string name;
  std::uint64_t index = 0;  ///< global, of the picture
  int repeat = 0;
  double seconds = 0;
  /// Of the sequential run of this picture and repeat in the same process.
  std::optional<double> sequential_seconds = {};
  std::int64_t nfe = 0;
  std::int64_t rounds = 0;
  // Of the first repeat: others give the same bytes.
  std::optional<double> relative_rmse = {};
  std::optional<double> picture_mse = {};  ///< of 8-bit values
  std::optional<double> ssim = {};
  // Of the first repeat of the first picture.
  std::optional<std::vector<PassBar>> passes = {};
  std::optional<Residuals> residuals = {};
  /// Of kPredictedRun: `seconds` are then the emulation's.
  std::optional<MeasuredPace> pace = {};
  // Of --quality, whose runs are no repeats of others.
  std::optional<std::int64_t> label = {};
  std::optional<std::vector<float>> features = {};
};

/// SettingRun::repeat of what are no repeats: judged pictures, and emulated
/// runs that predict measured ones.
inline constexpr int kQualityRun = -1;
inline constexpr int kPredictedRun = -2;

/// Calls visit(key, field): for a line of the file, and back.
template <typename Visitor, typename Run>
void visit_run(Visitor& visit, Run& r) {
  visit("steps", r.steps);
  visit("name", r.name);
  visit("index", r.index);
  visit("repeat", r.repeat);
  visit("seconds", r.seconds);
  visit("sequential_seconds", r.sequential_seconds);
  visit("nfe", r.nfe);
  visit("rounds", r.rounds);
  visit("relative_rmse", r.relative_rmse);
  visit("picture_mse", r.picture_mse);
  visit("ssim", r.ssim);
  visit("passes", r.passes);
  visit("residuals", r.residuals);
  visit("pace", r.pace);
  visit("label", r.label);
  visit("features", r.features);
}

/// The finished runs of a bench, in a file of lines of JSON. The first line
/// says what the runs are of; a bench of something else is refused. A line that
/// a killed process has left half-written is cut off. One process at a time
/// has the file. Thread: one.
class BenchLog {
 public:
  /// Opens the file or makes it. `what`: an object.
  /// Errors: Errc::invalid_argument where the runs there are of something else,
  /// naming the first key, or another process has the file;
  /// Errc::corrupt_file naming the line; Errc::io.
  BenchLog(std::filesystem::path path, const nlohmann::ordered_json& what);
  ~BenchLog();
  BenchLog(const BenchLog&) = delete;
  BenchLog& operator=(const BenchLog&) = delete;

  /// Errors: Errc::io, Errc::no_space.
  void add(const SettingRun& run);
  [[nodiscard]] bool has(int steps, const std::string& name,
                         std::uint64_t index, int repeat) const {
    return runs_.contains({steps, name, index, repeat});
  }
  /// The measured runs of a setting in the order of the pictures; or, by
  /// `kind`, those that are kQualityRun or kPredictedRun.
  [[nodiscard]] std::vector<SettingRun> of(int steps, const std::string& name,
                                           int kind = 0) const;

 private:
  void read(const nlohmann::ordered_json& what);
  void append(const std::string& line);

  std::filesystem::path path_;
  int descriptor_;
  std::map<std::tuple<int, std::string, std::uint64_t, int>, SettingRun> runs_;
};

}  // namespace troupe::actors
