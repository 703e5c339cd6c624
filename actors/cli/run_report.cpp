#include "actors/cli/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "config/method_plan.h"
#include "kernels/core/log.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// "4 images", "3 images made, 1 was there, 2 were cancelled".
std::string count_of(const RunSummary& summary) {
  const auto skipped = static_cast<std::size_t>(
      std::ranges::count(summary.images, "skipped", &ImageSummary::status));
  const auto cancelled = static_cast<std::size_t>(
      std::ranges::count(summary.images, "cancelled", &ImageSummary::status));
  const std::size_t made = summary.images.size() - skipped - cancelled;
  std::string text = counted(made, "image");
  if (skipped + cancelled > 0) {
    text += " made";
  }
  const auto add = [&text](std::size_t count, const char* what) {
    if (count > 0) {
      text +=
          fmt::format(", {} {} {}", count, count == 1 ? "was" : "were", what);
    }
  };
  add(skipped, "there");
  add(cancelled, "cancelled");
  return text;
}

/// A hash means something within its class.
std::string of_class(const std::string& execution_class) {
  return execution_class == "mixed" ? " of several classes"
                                    : " of class " + execution_class;
}

/// Why a summary has no hash over all latents; empty if it has one.
std::string why_no_hash(const RunSummary& summary) {
  if (!summary.latents_xxh3.empty()) {
    return {};
  }
  const auto there =
      std::ranges::count(summary.images, "skipped", &ImageSummary::status);
  if (there == 0) {
    return "not all images are done";
  }
  return fmt::format("{} of {} images {} there without {} latents", there,
                     summary.images.size(), there == 1 ? "was" : "were",
                     there == 1 ? "its" : "their");
}

/// Those of a job of several processes are counted together: their threads are
/// their own matter.
std::string company_of(const RunSummary& summary, const std::string& here) {
  if (summary.nodes.size() < 2) {
    return here;
  }
  const auto processes = std::ranges::count_if(
      summary.nodes, [](const Process& node) { return node.work.workers > 0; });
  return fmt::format("{} of {} process{}", counted(summary.workers, "worker"),
                     processes, processes == 1 ? "" : "es");
}

/// "batch on 2 workers × 4 threads", "cfg on 2 of 5 workers of 3 processes".
std::string method_and_workers(const RunSummary& summary,
                               const std::string& here) {
  const std::string company = company_of(summary, here);
  const auto images = static_cast<std::uint64_t>(std::ranges::count_if(
      summary.images,
      [](const ImageSummary& image) { return image.status != "skipped"; }));
  const auto workers = static_cast<std::uint64_t>(summary.workers);
  const std::uint64_t at_once =
      summary.workers_per_image == 0
          ? workers
          : images * static_cast<std::uint64_t>(summary.workers_per_image);
  const std::string method =
      summary.method + (summary.cut == "onion" ? " cut as an onion" : "");
  if (at_once > 0 && at_once < workers) {
    return fmt::format("{} on {} of {}", method, at_once, company);
  }
  // The method keeps one worker busy, and each worker has an image of its own.
  if (summary.useful_workers == 1 && workers > 1) {
    return fmt::format("{}, each image on one of {}", method, company);
  }
  return fmt::format("{} on {}", method, company);
}

}  // namespace

void print_result(const RunSummary& summary, const RunOutputs& outputs,
                  const std::string& here, bool only_measures) {
  std::string where;
  const bool to_stdout = outputs.images && outputs.images->is_stdout();
  if (to_stdout) {
    where = " → stdout";
  } else if (outputs.images && summary.images.size() == 1) {
    where = " → " + summary.images.front().path;
  } else if (outputs.images) {
    where = " → " + outputs.images->folder().string();
  } else if (!outputs.grid.empty()) {
    where = " → " + outputs.grid;
  }
  const std::string line = fmt::format(
      "{} in {:.2f} s ({:.2f} images/s){}; {} {}, guidance {}, {}, {}; {} in "
      "{}; {}{}",
      count_of(summary), summary.wall_seconds, summary.images_per_second, where,
      summary.sampler, counted(summary.steps, "step"), summary.guidance,
      method_and_workers(summary, here), summary.dtype,
      counted(summary.nfe, "network call") +
          (summary.reused > 0
               ? fmt::format(" ({} of the first block alone)", summary.reused)
               : std::string()),
      counted(summary.rounds, "round"),
      only_measures
          ? "peak memory " + human_bytes(summary.peak_memory_bytes) + "; "
          : std::string(),
      summary.latents_xxh3.empty()
          ? "no hash of all latents: " + why_no_hash(summary)
          : "latents " + summary.latents_xxh3 +
                of_class(summary.execution_class));
  if (to_stdout) {
    say(stderr, line);
  } else {
    fmt::print("{}\n", line);
  }
}

void note_missing_hash(RunSummary& summary) {
  const std::string why = why_no_hash(summary);
  if (!why.empty()) {
    summary.notes.push_back("latents_xxh3 of the whole job is left out: " +
                            why + "; each image names its own");
  }
}

void report_cancelled(const JobResult& result, RunSummary& summary) {
  const std::uint64_t cancelled = result.count(SampleStatus::cancelled);
  if (cancelled == 0) {
    return;
  }
  summary.status = "cancelled";
  summary.exit_code = exit_code(Errc::items_failed);
  const std::string note = fmt::format("{} of {} {} cancelled", cancelled,
                                       counted(result.samples.size(), "image"),
                                       cancelled == 1 ? "was" : "were");
  log_message(LogLevel::warning, note);
  summary.notes.push_back(note);
}

void report_lost(const JobRequest& request, std::span<const LostDevice> lost,
                 RunSummary& summary) {
  for (const LostDevice& one : lost) {
    if (one.process != kHomeProcess) {
      continue;  // `nodes` has it
    }
    const std::string name = request.at(one.device).label();
    const auto known =
        std::ranges::find(summary.devices, name, &DeviceSummary::name);
    // One worker of several may have been lost: the first cause says why.
    if (known == summary.devices.end() || known->status == "lost") {
      continue;
    }
    known->status = "lost";
    known->cause = one.cause.message;
    const std::string note = name + " was lost: " + known->cause;
    log_message(LogLevel::warning, note);
    summary.notes.push_back(note);
  }
}

std::string how_to_go_on(const config::Config& config,
                         const JobRequest& request, const RunOutputs& outputs) {
  if (!outputs.images || outputs.images->is_stdout()) {
    return {};
  }
  std::string hint = "the same command ";
  if (outputs.exists != config::ExistsPolicy::skip) {
    hint += "with --exists skip ";
  }
  if (outputs.exists == config::ExistsPolicy::replace) {
    hint += "in place of replace ";
  }
  // What chooses a method may choose another one for the rest.
  if (outputs.exists != config::ExistsPolicy::skip && config.max_rmse) {
    hint += "and ";
    for (const auto& [key, text] :
         config::method_settings(request.job.method)) {
      hint.append("--").append(key).append(" ").append(text).append(" ");
    }
    hint += "in place of " + config.place_of("max-rmse") + " ";
  }
  return hint + "goes on";
}

Error lost_output(const Failure& failure, const config::Config& config,
                  const JobRequest& request, const RunOutputs& outputs) {
  std::string hint = failure.hint;
  if (failure.code == Errc::invalid_argument) {  // another run's file is there
    return to_error(failure);
  }
  const std::string next = how_to_go_on(config, request, outputs);
  if (!next.empty()) {
    hint += (hint.empty() ? "" : "; then ") + next;
  }
  return {failure.code == Errc::io ? Errc::job_failed : failure.code,
          failure.place, failure.message, hint};
}

}  // namespace troupe::actors
