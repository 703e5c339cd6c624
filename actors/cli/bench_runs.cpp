#include "actors/cli/bench_runs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/artefacts/png.h"
#include "actors/cli/bench_measure.h"
#include "actors/cli/bench_pace.h"
#include "actors/cli/compare_files.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/progress_printer.h"
#include "actors/job_parts.h"
#include "kernels/copy.h"
#include "kernels/core/hash.h"
#include "kernels/core/noise.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

/// Gives the job's pictures initial latents that noise of 1e-6 has moved.
void move_starts(JobRequest& request) {
  constexpr float kMove = 1e-6F;
  const Shape& shape = request.source.latent_shape();
  const auto noise = make_noise(request.job, {}, request.schedule);
  // A row for each index from 0 on: those before the first are not used.
  Tensor starts(with_rows(static_cast<std::int64_t>(request.job.end), shape),
                DType::f32);
  std::ranges::fill(starts.span<float>(), 0.0F);
  Tensor move(shape, DType::f32);
  request.job.init_latents.clear();
  for (std::uint64_t index = 0; index < request.job.end; ++index) {
    Tensor start = starts.item(static_cast<std::int64_t>(index));
    if (index >= request.job.begin) {
      noise->initial(index, start);
      // No run draws noise for this step.
      fill_normal({.seed = request.job.seed,
                   .sample_index = index,
                   .step_index = ~std::uint32_t{0},
                   .purpose = NoisePurpose::step},
                  move);
      for (std::size_t i = 0; i < move.span<float>().size(); ++i) {
        start.span<float>()[i] += kMove * move.span<float>()[i];
      }
    }
    request.job.init_latents.push_back(xxh3_64(start.bytes()));
  }
  request.init_latents = std::move(starts);
}

/// Keeps the latents of a run, the spans of its passes through the network, and
/// the residuals of its sweeps, which are of one picture.
struct RunObserver final : Observer {
  void on_sample(const SampleOutcome& outcome) override {
    latents[outcome.report.sample_index] = outcome.latents;
  }
  void on_pass(const TracePass& pass) override {
    if (pass.span.op->joins()) {
      spans.push_back(pass.span);
    }
    for (const TaskScalars& one : pass.scalars) {
      if (one.op == samplers::Op::sweep) {
        const auto step = static_cast<std::size_t>(one.step);
        residuals.resize(std::max(residuals.size(), step + 1));
        residuals[step].push_back(one.scalars.front());
      }
    }
  }

  std::map<std::uint64_t, Tensor> latents;
  std::vector<TraceSpan> spans;
  Residuals residuals;
};

std::vector<PassBar> bars_of(const std::vector<TraceSpan>& spans) {
  std::vector<PassBar> bars;
  if (spans.empty()) {
    return bars;
  }
  const TimePoint first = std::ranges::min(spans, {}, &TraceSpan::start).start;
  for (const TraceSpan& span : spans) {
    bars.push_back({.worker = span.worker,
                    .segment = span.segment,
                    .step = span.step,
                    .start = emulation::to_seconds(span.start - first),
                    .seconds = emulation::to_seconds(span.duration)});
  }
  return bars;
}

/// A run that ended well.
struct Run {
  JobResult result;
  std::map<std::uint64_t, Tensor> latents;
  // If it was traced.
  std::vector<PassBar> passes;
  Residuals residuals;
};

/// What a picture's runs are compared with.
struct Reference {
  std::map<std::uint64_t, Tensor> latents;
  Image picture;
};

/// Pictures of one job that is judged: a stopped bench loses no more.
constexpr std::uint64_t kJudgedTogether = 32;

/// Runs what the log lacks.
class MethodsBench {
 public:
  MethodsBench(Invocation& invocation, const std::vector<Grid>& grids,
               const JobRunner& runner, BenchLog& log, int repeats,
               PictureClassifier* classifier)
      : invocation_(invocation),
        grids_(grids),
        runner_(runner),
        log_(log),
        repeats_(repeats),
        classifier_(classifier),
        decoder_(runner.make_decode_context()),
        printer_(progress_kind(invocation.config), stderr,
                 SteadyClock().now()) {}

  void run() {
    each_picture([this](const Grid& grid, std::uint64_t index) {
      expect(grid.rows.front());  // the reference
      each_missing(grid, index, [&](const GridRow& row, int) {
        expect(row);
        if (&row == &grid.rows.front()) {
          std::ranges::for_each(grid.probes, [this](const GridRow& probe) {
            expect(probe, probe.request.num_samples());
          });
        }
      });
      each_unpredicted(grid, index,
                       [this](const GridRow& row) { expect(row); });
    });
    each_unjudged(
        [this](const Grid&, const GridRow& row, config::SampleRange range) {
          expect(row, range.size());
        });
    each_picture([this](const Grid& grid, std::uint64_t index) {
      // Also warms up what the first run of a process prepares.
      const Reference reference = reference_of(grid.rows.front(), index);
      PaceSamples pace;
      each_missing(grid, index, [&](const GridRow& row, int repeat) {
        measure(grid, row, index, repeat, reference, pace);
      });
      each_unpredicted(grid, index, [&](const GridRow& row) {
        predict(grid, row, index, pace);
      });
    });
    each_unjudged(
        [this](const Grid& grid, const GridRow& row,
               config::SampleRange range) { judge(grid, row, range); });
    printer_.finish();
  }

 private:
  /// So many pictures of the row are to be drawn.
  void expect(const GridRow& row, std::uint64_t pictures = 1) {
    progress_.samples_total += pictures;
    progress_.calls_total += static_cast<std::int64_t>(pictures) *
                             row.request.schedule.num_model_calls();
  }
  /// Before others of a repeat the sequential run, if need be again: what is
  /// compared is measured in one process.
  template <typename Call>
  void each_missing(const Grid& grid, std::uint64_t index, const Call& call) {
    for (int repeat = 0; repeat < repeats_; ++repeat) {
      const auto is_missing = [&](const GridRow& row) {
        return !log_.has(grid.steps, row.name, index, repeat);
      };
      const bool any = std::ranges::any_of(grid.rows, is_missing);
      for (const GridRow& row : grid.rows) {
        if (is_missing(row) || (any && &row == &grid.rows.front())) {
          call(row, repeat);
        }
      }
    }
  }
  template <typename Call>
  void each_unpredicted(const Grid& grid, std::uint64_t index,
                        const Call& call) {
    for (const GridRow& row : grid.rows) {
      if (!grid.probes.empty() &&
          !log_.has(grid.steps, row.name, index, kPredictedRun)) {
        call(row);
      }
    }
  }
  /// Those with runs that are missing.
  template <typename Call>
  void each_picture(const Call& call) {
    for (const Grid& grid : grids_) {
      const config::SampleRange range = grid.all.samples();
      for (std::uint64_t index = range.begin; index < range.end; ++index) {
        bool is_missing = false;
        const auto note = [&is_missing](const auto&...) { is_missing = true; };
        each_missing(grid, index, note);
        each_unpredicted(grid, index, note);
        if (is_missing) {
          call(grid, index);
        }
      }
    }
  }

  /// Pictures that are not judged yet, kJudgedTogether at most: the first of
  /// --quality by each setting, and all seed sets by the sequential run.
  template <typename Call>
  void each_unjudged(const Call& call) {
    if (classifier_ == nullptr) {
      return;
    }
    const auto count = static_cast<std::uint64_t>(invocation_.config.quality);
    for (const Grid& grid : grids_) {
      const std::uint64_t first = grid.all.job.begin;
      for (const GridRow& row : grid.rows) {
        const bool is_sequential = &row == &grid.rows.front();
        const std::uint64_t end =
            first + (is_sequential ? kSeedSets : 1) * count;
        const auto is_missing = [&](std::uint64_t index) {
          return !log_.has(grid.steps, row.name, index, kQualityRun);
        };
        config::SampleRange range{first, first};
        while (range.end < end) {
          range.begin = range.end;
          while (range.end < end && is_missing(range.end) &&
                 range.size() < kJudgedTogether) {
            ++range.end;
          }
          if (range.size() > 0) {
            call(grid, row, range);
          } else {
            ++range.end;
          }
        }
      }
    }
  }

  /// Bytes do not depend on workers and neighbours, and nothing is timed: so
  /// all cores draw the pictures, as one job.
  void judge(const Grid& grid, const GridRow& row, config::SampleRange range) {
    const GridRow wide{.name = row.name,
                       .role = row.role,
                       .request = on_all_cores(row.request)};
    const Run run = draw(wide, range, nullptr, false);
    for (const SampleReport& report : run.result.samples) {
      const std::uint64_t index = report.sample_index;
      PictureClassifier::Judgement judgement =
          classifier_->judge(picture_of(run.latents.at(index)));
      log_.add({.steps = grid.steps,
                .name = row.name,
                .index = index,
                .repeat = kQualityRun,
                .seconds =
                    run.result.wall_seconds / static_cast<double>(range.size()),
                .nfe = report.progress.nfe,
                .rounds = report.progress.rounds,
                .label = judgement.label,
                .features = std::move(judgement.features)});
    }
  }

  /// One picture, on modelled devices where the bench has them.
  Run draw(const GridRow& row, std::uint64_t index, bool traces = false) {
    return draw(row, {index, index + 1},
                row.request.is_emulated ? &row.machine : nullptr, traces);
  }

  /// `machine`: modelled devices; null: by the row's workers.
  Run draw(const GridRow& row, config::SampleRange range,
           const emulation::Machine* machine, bool traces) {
    JobRequest request = row.request;
    request.job.begin = range.begin;
    request.job.end = range.end;
    if (row.role == RowRole::floor) {
      move_starts(request);
    }
    RunObserver observer;
    JobSpec job = runner_.job_of({.observers = {&observer},
                                  .stop = invocation_.stop->token(),
                                  .decode = false,
                                  .trace = traces},
                                 request);
    JobResult result =
        machine == nullptr
            ? run_job(job)
            : emulation::emulate(std::move(job), *machine, num_usable_cores())
                  .result;
    invocation_.stop->check("bench",
                            "stopped; the same command goes on with what is "
                            "missing");
    check_measured(result);
    progress_.samples_done += request.num_samples();
    progress_.calls_done += static_cast<std::int64_t>(request.num_samples()) *
                            request.schedule.num_model_calls();
    printer_.update(progress_, SteadyClock().now());
    return {std::move(result), std::move(observer.latents),
            bars_of(observer.spans), std::move(observer.residuals)};
  }

  Image picture_of(const Tensor& latents) {
    Tensor pixels;
    runner_.decode(*decoder_, latents, pixels);
    return to_image(kernels::on_host(*decoder_, pixels));
  }

  Reference reference_of(const GridRow& row, std::uint64_t index) {
    Run run = draw(row, index);
    Image picture = picture_of(run.latents.at(index));
    return {std::move(run.latents), std::move(picture)};
  }

  void measure(const Grid& grid, const GridRow& row, std::uint64_t index,
               int repeat, const Reference& reference, PaceSamples& pace) {
    const bool is_first = repeat == 0;
    const bool is_drawn = is_first && index == grid.all.job.begin;
    const bool is_sequential = &row == &grid.rows.front();
    Run drawn = draw(row, index, is_drawn || is_sequential);
    const JobResult& result = drawn.result;
    if (is_sequential) {
      sequential_seconds_ = result.wall_seconds;
      probe(grid, drawn, pace);
    }
    SettingRun run{.steps = grid.steps,
                   .name = row.name,
                   .index = index,
                   .repeat = repeat,
                   .seconds = result.wall_seconds,
                   .sequential_seconds = sequential_seconds_,
                   .nfe = result.nfe,
                   .rounds = result.rounds};
    if (is_first) {
      const Image picture = picture_of(drawn.latents.at(index));
      run.relative_rmse = relative_rmse(drawn.latents, reference.latents);
      const double rmse = distance_of(picture, reference.picture).rmse;
      run.picture_mse = rmse * rmse;
      run.ssim = structural_similarity(picture, reference.picture);
    }
    if (is_drawn) {
      run.passes = std::move(drawn.passes);
      if (!drawn.residuals.empty()) {
        run.residuals = std::move(drawn.residuals);
      }
    }
    log_.add(run);
  }

  /// Notes how long passes take while all workers are at work, and how long
  /// those of a sequential run took.
  void probe(const Grid& grid, const Run& sequential, PaceSamples& pace) {
    if (grid.probes.empty()) {
      return;
    }
    pace.add_alone(sequential.passes, sequential.result.wall_seconds);
    for (std::size_t i = 0; i < grid.probes.size(); ++i) {
      const GridRow& probe = grid.probes[i];
      pace.add_busy(i,
                    draw(probe, probe.request.samples(), nullptr, true).passes);
    }
  }

  /// The time of a measured run, by its emulation. Without samples of its own,
  /// which an earlier process has taken, it takes some.
  void predict(const Grid& grid, const GridRow& row, std::uint64_t index,
               PaceSamples& pace) {
    if (pace.empty()) {
      probe(grid, draw(grid.rows.front(), index, true), pace);
    }
    const MeasuredPace measured = pace.pace();
    // Where passes differ, one run may meet an unlucky order of its tasks.
    const std::uint64_t times = measured.spread > 0.02 ? 3 : 1;
    SettingRun run{.steps = grid.steps,
                   .name = row.name,
                   .index = index,
                   .repeat = kPredictedRun,
                   .pace = measured};
    std::vector<double> seconds;
    for (std::uint64_t i = 0; i < times; ++i) {
      if (i > 0) {
        expect(row);
      }
      const emulation::Machine machine =
          pace.machine_of(row.request, times * index + i);
      const JobResult result =
          draw(row, {index, index + 1}, &machine, false).result;
      run.nfe = result.nfe;
      run.rounds = result.rounds;
      seconds.push_back(result.wall_seconds + 1e-3 * measured.start_ms);
    }
    run.seconds = median_of(std::move(seconds));
    log_.add(run);
  }

  Invocation& invocation_;
  const std::vector<Grid>& grids_;
  const JobRunner& runner_;
  BenchLog& log_;
  int repeats_;
  PictureClassifier* classifier_;  ///< null: nothing is judged
  std::unique_ptr<ExecContext> decoder_;
  ProgressPrinter printer_;
  JobProgress progress_;
  double sequential_seconds_ = 0;  ///< of the latest sequential run
};

}  // namespace

void run_missing(Invocation& invocation, const std::vector<Grid>& grids,
                 const JobRunner& runner, BenchLog& log, int repeats,
                 PictureClassifier* classifier) {
  MethodsBench(invocation, grids, runner, log, repeats, classifier).run();
}

}  // namespace troupe::actors
