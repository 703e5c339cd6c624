#include "actors/cli/bench_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "config/schedule_options.h"
#include "kernels/core/hash.h"

namespace troupe::actors {

void visit_fields(auto& visit, AnyConst<EmulatedFigures> auto& r) {
  visit({"utilisation", "emulated: busy time of all devices"}, r.utilisation);
  visit({"critical_path_seconds",
         "emulated: longest chain of tasks and forced transfers"},
        r.bounds.critical_path);
  visit({"work_seconds",
         "emulated: all work over all speeds, or a part of it over its "
         "devices"},
        r.bounds.work);
  visit({"traffic_seconds", "emulated: bytes_sent over all links at once"},
        r.bounds.traffic);
  visit(
      {"over_lower_bound", "emulated: seconds over the largest of these three"},
      r.over_lower_bound);
  visit({"list_schedule_seconds",
         "emulated: a list schedule of the same passes, with free control"},
        r.bounds.list_schedule);
  visit({"over_list_schedule", "emulated: seconds over that"},
        r.over_list_schedule);
  visit({"bytes_sent", "emulated: of values, between devices"}, r.bytes_sent);
  visit({"coordinator_events", "emulated: that it took"}, r.num_events);
}

void visit_fields(auto& visit, AnyConst<BenchRow> auto& r) {
  constexpr FieldKey kCut =
      if_any({"cut", "chain or onion; absent where the network is whole"});
  visit({"name", "method and company"}, r.name);
  visit({"emulated", "true: times are modelled; else absent"},
        r.emulated ? std::optional(true) : std::nullopt);
  visit({"method", "parallel method"}, r.method);
  visit({"workers", "workers of the company"}, r.workers);
  visit({"threads", "threads of each CPU worker; absent if emulated"},
        r.threads);
  visit({"seconds", "median of the repeats; emulated: modelled"}, r.seconds);
  visit({"speedup_over_1_thread", "on the CPU"}, r.over_1_thread);
  visit({"speedup_over_2_threads", "on the CPU"}, r.over_2_threads);
  visit({"speedup_over_1_worker", "on GPUs, and emulated"}, r.over_1_worker);
  visit_part(visit, r.emulated);
  if (!r.emulated) {
    visit(kCut, r.cut);
  }
  visit({"nfe", "network calls of all images"}, r.nfe);
  visit({"rounds", "network calls one after another"}, r.rounds);
  visit({"reused", "of nfe: calls of +cache that ran the first block alone"},
        r.reused);
  visit({"relative_rmse", "of the latents against the first row"},
        r.relative_rmse);
  visit({"latents_xxh3", "XXH3-64 of the final latents' bytes in index order"},
        r.latents_xxh3);
  if (r.emulated) {
    visit(kCut, r.cut);
  }
}

void visit_fields(auto& visit, AnyConst<BenchTable> auto& r) {
  visit({"model", "folder name or bundled name"}, r.model);
  visit({"samples", "images of each measurement"}, r.samples);
  visit({"sampler", "sampler as --sampler names it"}, r.sampler);
  visit({"steps", "denoising steps"}, r.steps);
  visit({"guidance", "classifier-free guidance; 1: none"}, r.guidance);
  visit({"dtype", "f32, bf16, f16; several with commas"}, r.dtype);
  visit({"repeats",
         "runs of each measurement; the median counts; absent if emulated"},
        r.repeats);
  if (!r.emulated) {
    visit(or_null({"bits", "of GPUs; null on the CPU; absent if emulated"}),
          r.bits);
  }
  visit({"emulated", "the modelled machine of --emulate, or absent"},
        r.emulated);
  visit({"rows",
         "baselines first, then the methods that were asked for, in their "
         "order"},
        r.rows);
  visit({"notes", "what the user should know"}, r.notes);
}

std::vector<JsonField> bench_json_fields() {
  return json_rows_of<BenchTable>();
}

void print_json(const Invocation& invocation, const JobRequest& request,
                BenchTable table) {
  table.model = request.source.name();
  table.samples = request.num_samples();
  table.sampler = config::solver_label(request.schedule.options());
  table.steps = request.schedule.num_steps();
  table.guidance = request.job.guidance.scale;
  table.dtype = request.dtypes();
  fmt::print("{}\n", dump(document(invocation.summary, table)));
}

std::string describe_measured(const JobRequest& request) {
  return fmt::format("{}: {} samples, {} {} steps, guidance {}, {}",
                     request.source.name(), request.num_samples(),
                     config::solver_label(request.schedule.options()),
                     request.schedule.num_steps(), request.job.guidance.scale,
                     request.dtypes());
}

void RunsProgress::on_progress(const JobProgress& progress) {
  run_ = progress;
  print();
}

void RunsProgress::next() {
  run_.samples_done = run_.samples_total;
  run_.calls_done = run_.calls_total;
  print();
  run_.samples_done = 0;
  run_.calls_done = 0;
  ++num_done_;
}

void RunsProgress::print() {
  JobProgress all = run_;
  const auto runs = static_cast<std::int64_t>(num_runs_);
  const auto done = static_cast<std::int64_t>(num_done_);
  all.samples_total = num_runs_ * run_.samples_total;
  all.samples_done += num_done_ * run_.samples_total;
  all.calls_total = runs * run_.calls_total;
  all.calls_done += done * run_.calls_total;
  printer_.update(all, SteadyClock().now());
}

void explain_columns(std::span<const Column> columns) {
  const auto explain = [](const Column& column) {
    fmt::print("{:<10} {}\n", column.head, column.meaning);
  };
  fmt::print("\n");
  for (const Column& column : columns) {
    explain(column);
  }
  explain({"NFE", "network calls of all images; a guided call counts once"});
  explain({"rounds", "network calls that had to follow one another"});
  explain({"rel. RMSE",
           "how far the latents are from the first row's, by the size of "
           "those; 0: no difference"});
}

void check_measured(const JobResult& result) {
  if (result.failure) {
    throw to_error(*result.failure);
  }
  for (const SampleReport& report : result.samples) {
    if (report.failure) {
      throw to_error(*report.failure);
    }
  }
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

double relative_rmse(const std::map<std::uint64_t, Tensor>& a,
                     const std::map<std::uint64_t, Tensor>& b) {
  double error = 0;
  double norm = 0;
  for (const auto& [index, reference] : b) {
    const auto values = a.at(index).span<float>();
    const auto truth = reference.span<float>();
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const double difference = static_cast<double>(values[i]) - truth[i];
      error += difference * difference;
      norm += static_cast<double>(truth[i]) * truth[i];
    }
  }
  return norm > 0 ? std::sqrt(error / norm) : 0;
}

std::string latents_xxh3(const std::map<std::uint64_t, Tensor>& latents) {
  Xxh3Stream hash;
  for (const auto& [index, one] : latents) {
    hash.update(one.bytes());
  }
  return to_hex(hash.digest());
}

}  // namespace troupe::actors
