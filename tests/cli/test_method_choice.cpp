#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/forecast.h"
#include "actors/cli/job_request.h"
#include "actors/cli/method_choice.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "tests/core/temporary_folder.h"

// What --max-rmse chooses by a table.

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

constexpr int kSteps = 12;

config::Config measured_job(int workers, std::uint64_t samples) {
  config::Config config;
  config.random_weights = "dit-tiny";
  config.classes = {"1"};
  config.samples = {0, samples};
  config.compute = config::ComputeType::f32;
  config.sampler.steps = kSteps;
  config.guidance_scale = 1;
  config.num_workers = workers;
  config.num_threads = 1;
  return config;
}

/// Without figures.
MethodFigures table_of(const JobRequest& request) {
  ExecContext ctx(1);
  return {.model = request.source.name(),
          .weights_xxh3 = to_hex(request.source.weights_hash(ctx))};
}

MethodFigure figure_of(const JobRequest& request, MethodOptions method) {
  return {.name = std::string(method.kind->name),
          .setting = figure_setting(request),
          .rounds = kSteps,
          .nfe = kSteps,
          .relative_rmse_median = 0.01,
          .relative_rmse_worst = 0.1,
          .runs = 8,
          .version = "1",
          .sources = "2",
          .date = "2026-01-01",
          .method = {std::move(method)}};
}

class TableFile {
 public:
  std::string write(const std::string& text) const {
    const std::filesystem::path path = folder_.path() / "methods.json";
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  std::string write(const MethodFigures& table) const {
    return write(json_of(table).dump());
  }

 private:
  TemporaryFolder folder_;
};

/// The settings that a table may have.
std::vector<MethodOptions> settings() {
  return {{.kind = MethodKind::draft, .window_size = 2},
          {.kind = MethodKind::draft, .window_size = 3},
          {.kind = MethodKind::picard, .window_size = 2, .tolerance = 0.1},
          {.kind = MethodKind::picard, .window_size = 4, .tolerance = 0.1},
          {.kind = MethodKind::taa, .window_size = 8, .tolerance = 0.1},
          {.kind = MethodKind::chords, .window_size = 4},
          {.kind = MethodKind::parareal, .window_size = 4},
          {.kind = MethodKind::parareal, .window_size = 4, .iterations = 2},
          {.kind = MethodKind::stale, .num_segments = 2},
          {.kind = MethodKind::stale, .num_segments = 4}};
}

/// A drawn job, and what may be chosen for it.
class DrawnCase {
 public:
  explicit DrawnCase(unsigned seed) : random_(seed) {
    workers = number(1, 8);
    samples = static_cast<std::uint64_t>(number(1, 6));
    config = measured_job(workers, samples);
    config.guidance_scale = number(1, 2);
    most = uniform(0.001, 0.2);
    const JobRequest exact = make_request(config);
    add({.kind = MethodKind::sequential}, nullptr);
    add({.kind = MethodKind::batch}, nullptr);
    if (config.guidance_scale > 1) {
      add({.kind = MethodKind::cfg}, nullptr);
    }
    MethodFigures table = table_of(exact);
    for (const MethodOptions& method : settings()) {
      MethodFigure figure = figure_of(exact, method);
      figure.rounds = number(4, kSteps);
      figure.nfe = figure.rounds * uniform(1, 3);
      figure.relative_rmse_median = uniform(0.0005, 0.2);
      figure.relative_rmse_worst = 2 * figure.relative_rmse_median;
      figure.runs = static_cast<std::uint64_t>(number(6, 16));
      if (number(1, 8) == 1) {
        figure.setting.dtype = "bf16";
      }
      if (figure.setting.dtype == "f32" && figure.runs >= 8 &&
          figure.relative_rmse_median <= most &&
          samplers::num_parts(method) <= workers) {
        add(method, &figure);
      }
      table.methods.push_back(std::move(figure));
    }
    config.method_table = file_.write(table);
    config.max_rmse = most;
  }

  int workers = 1;
  std::uint64_t samples = 1;
  double most = 0;
  config::Config config;
  std::vector<std::pair<MethodOptions, double>> allowed;  ///< with their costs

 private:
  void add(const MethodOptions& method, const MethodFigure* figure) {
    JobShape shape{.samples = samples,
                   .calls = kSteps,
                   .workers = workers,
                   .blocks = 4,
                   .method = method};
    if (figure != nullptr) {
      shape.measured = MeasuredCalls{figure->rounds, figure->nfe};
    }
    allowed.emplace_back(method, workload_of(shape).path);
  }
  int number(int low, int high) {
    return std::uniform_int_distribution(low, high)(random_);
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution(low, high)(random_);
  }

  std::mt19937 random_;
  TableFile file_;
};

TEST(MethodChoice, IsTheCheapestOfTheSettingsThatAreAllowed) {
  int approximate = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const DrawnCase drawn(seed);
    const JobRequest request = make_request(drawn.config);
    const MethodOptions& method = request.job.method;
    const auto found = std::ranges::find_if(
        drawn.allowed,
        [&](const auto& one) { return is_same(one.first, method); });
    ASSERT_NE(found, drawn.allowed.end()) << seed << " " << method.kind->name;
    for (const auto& [other, cost] : drawn.allowed) {
      EXPECT_LE(found->second, cost * 1.000001)
          << seed << ": " << method.kind->name << " instead of "
          << other.kind->name;
    }
    const auto approximates = method.kind->approximates;
    approximate += approximates != nullptr && approximates(method) ? 1 : 0;
  }
  EXPECT_GT(approximate, 20);
  EXPECT_LT(approximate, 80);
}

TEST(MethodChoice, IsExactWhereThatIsAsFastAndElseTheNearest) {
  const JobRequest one = make_request(measured_job(2, 1));
  MethodFigures table = table_of(one);
  MethodFigure far = figure_of(
      one, {.kind = MethodKind::picard, .window_size = 2, .tolerance = 0.1});
  far.relative_rmse_median = 0.02;
  far.rounds = 6;
  MethodFigure near = far;
  near.relative_rmse_median = 0.01;
  near.method.options.tolerance = 0.05;
  table.methods = {far, near};
  const TableFile file;
  const auto chosen = [&](int workers, std::uint64_t samples) {
    config::Config config = measured_job(workers, samples);
    config.max_rmse = 0.02;
    config.method_table = file.write(table);
    return make_request(config);
  };
  EXPECT_EQ(chosen(2, 1).job.method.tolerance, 0.05);
  EXPECT_EQ(chosen(2, 2).job.method.kind, MethodKind::batch);
  EXPECT_EQ(chosen(1, 1).job.method.kind, MethodKind::sequential);
}

TEST(MethodChoice, SaysWhatItTookAndWhy) {
  const JobRequest exact = make_request(measured_job(2, 1));
  MethodFigures table = table_of(exact);
  const TableFile file;
  const auto note = [&] {
    config::Config config = measured_job(2, 1);
    config.max_rmse = 0.05;
    config.method_table = file.write(table);
    return make_request(config).choice_note;
  };
  EXPECT_NE(note().find("from exact methods only: "), std::string::npos);
  MethodFigure draft =
      figure_of(exact, {.kind = MethodKind::draft, .window_size = 2});
  draft.name = "draft --window 2";
  draft.setting.steps = 20;
  table.methods = {draft};
  EXPECT_NE(note().find("has no figures of ddim, 12 steps, f32, guidance 1, "),
            std::string::npos)
      << note();
  EXPECT_NE(note().find(", but of ddim, 20 steps, f32, "), std::string::npos)
      << note();
  table.methods[0].setting.steps = kSteps;
  table.methods[0].setting.schedule_xxh3 = "0";
  EXPECT_NE(note().find(" with other options"), std::string::npos) << note();
  table.methods[0].setting = figure_setting(exact);
  table.methods[0].runs = 7;
  EXPECT_NE(note().find("measured on 8 pictures"), std::string::npos) << note();
  table.methods[0].runs = 8;
  EXPECT_NE(note().find("auto: draft --window 2 on 2 workers: "),
            std::string::npos)
      << note();
  EXPECT_NE(note().find("instead of 12 with sequential; relative RMSE of "
                        "latents from the sequential run's 0.01 (median of 8 "
                        "runs), 0.1 (worst), at most 0.05 is allowed: "),
            std::string::npos)
      << note();
  EXPECT_NE(note().find("methods.json of 2026-01-01"), std::string::npos);
  table.methods[0].relative_rmse_median = 0.06;
  EXPECT_NE(note().find("auto: sequential on 2 workers, which is exact: "
                        "nothing within 0.05 ends sooner"),
            std::string::npos)
      << note();
}

/// What it refuses.
Error table_refusal(const std::string& path) {
  config::Config config = measured_job(2, 1);
  config.max_rmse = 0.05;
  config.method_table = path;
  try {
    (void)make_request(config);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "took " << path;
  return {Errc::internal, "", ""};
}

TEST(MethodTableFile, OfOtherWeightsOrAnotherKindIsRefused) {
  const JobRequest exact = make_request(measured_job(2, 1));
  const MethodFigures table = [&] {
    MethodFigures some = table_of(exact);
    some.methods = {
        figure_of(exact, {.kind = MethodKind::draft, .window_size = 2})};
    return some;
  }();
  const TableFile file;
  MethodFigures foreign = table;
  foreign.weights_xxh3 = "0123456789abcdef";
  const Error other = table_refusal(file.write(foreign));
  EXPECT_EQ(other.code(), Errc::invalid_argument);
  EXPECT_EQ(other.place(), "--method-table");
  EXPECT_NE(other.message().find("with other weights than those of dit-tiny"),
            std::string::npos)
      << other.what();
  EXPECT_EQ(table_refusal("/no/such.json").code(), Errc::not_found);

  const auto good = nlohmann::json::parse(json_of(table).dump());
  std::vector<std::string> bad = {"", "{}", "[]", "{\"a\":1,\"a\":2}",
                                  good.dump().substr(0, 200)};
  const auto add = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json changed = good;
    changed[nlohmann::json::json_pointer(pointer)] = value;
    bad.push_back(changed.dump());
  };
  add("/schema", 2);
  add("/extra", 1);
  add("/methods", 3);
  add("/methods/0", "draft");
  add("/methods/0/extra", 1);
  add("/methods/0/rounds", "12");
  add("/methods/0/rounds", 0);
  add("/methods/0/nfe", 1);
  add("/methods/0/relative_rmse_worst", 0.001);
  add("/methods/0/relative_rmse_median", -1);
  add("/methods/0/guidance_interval", "2");
  add("/methods/0/method/kind", "magic");
  add("/methods/0/method/window_size", 99);
  add("/methods/0/method/windows", 2);
  nlohmann::json lacks = good;
  lacks["methods"][0].erase("relative_rmse_median");
  bad.push_back(lacks.dump());
  for (const std::string& text : bad) {
    const Error error = table_refusal(file.write(text));
    EXPECT_TRUE(error.code() == Errc::corrupt_file ||
                error.code() == Errc::invalid_argument)
        << text;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << text;
    EXPECT_NE(error.hint(), "") << text;
  }
}

TEST(MethodTableFile, KeepsFiguresOfOtherSettingsAndMethods) {
  const JobRequest exact = make_request(measured_job(2, 1));
  MethodFigures table = table_of(exact);
  const MethodFigure draft =
      figure_of(exact, {.kind = MethodKind::draft, .window_size = 2});
  const MethodFigure picard =
      figure_of(exact, {.kind = MethodKind::picard, .tolerance = 0.1});
  MethodFigure other = draft;
  other.setting.steps = 50;
  table.methods = {draft, picard, other};
  MethodFigure newer = draft;
  newer.runs = 9;
  MethodFigure other_default = draft;
  other_default.method.options.anchor = samplers::Anchor::fresh;
  table.methods.push_back(other_default);
  merge({newer}, table);
  ASSERT_EQ(table.methods.size(), 3U);
  EXPECT_EQ(table.methods[0].name, "picard");
  EXPECT_EQ(table.methods[1].setting.steps, 50);
  EXPECT_EQ(table.methods[2].runs, 9U);
  const TableFile file;
  EXPECT_EQ(json_of(read_method_figures(file.write(table))), json_of(table));
}

}  // namespace
}  // namespace troupe::actors
