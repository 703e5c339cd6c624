#include "actors/cli/bench_measure.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/core/hash.h"

namespace troupe::actors {

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
