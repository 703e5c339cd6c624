#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/link_options.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/verbs.h"
#include "actors/remote/client_service.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

constexpr auto kBetweenLooks = std::chrono::seconds(1);

/// "dit-tiny, batch: 12 of 60 images done, 1 failed, 20 %, 3.1 calls/s, 0:12
/// left".
std::string headline(const JobStatus& status) {
  const JobProgress& job = status.progress;
  const ProgressView view = status.view();
  std::string line = fmt::format("{}, {}: {} of {} images done",
                                 printable(status.model, kLongestLine),
                                 printable(status.method, kLongestLine),
                                 job.samples_done, job.samples_total);
  const auto add = [&line](std::uint64_t count, const char* what) {
    if (count > 0) {
      line += fmt::format(", {} {}", count, what);
    }
  };
  add(job.samples_failed, "failed");
  add(job.samples_cancelled, "cancelled");
  line += fmt::format(", {:.0f} %", view.fraction * 100);
  if (view.calls_per_second > 0) {
    line += fmt::format(", {:.1f} calls/s", view.calls_per_second);
  }
  if (view.waits_for_workers) {
    line += ", waits for workers";
  } else if (view.seconds_left >= 0) {
    line += ", " + render_seconds(view.seconds_left) + " left";
  }
  return line;
}

/// "0.42", "31.5"; nothing while it is not known.
std::string rate_text(double per_second) {
  if (per_second <= 0) {
    return "";
  }
  return fmt::format("{:.{}f}", per_second, per_second < 10 ? 2 : 1);
}

/// The same.
std::string memory_text(std::uint64_t bytes) {
  return bytes == 0 ? "" : human_bytes(bytes);
}

/// ", cuda:0 (NVIDIA H200), 139 GiB"; nothing without GPUs.
std::string gpus_of(const Process& node) {
  std::string text;
  for (const DeviceMeans& one : node.means.devices) {
    if (one.device.kind == DeviceKind::cuda) {
      text += ", " + printable(label_of(one), kLongestLine) + ", " +
              human_bytes(one.memory_bytes);
    }
  }
  return text;
}

/// A line for the job, one with names, and one for each process.
std::string table_of(const JobStatus& status) {
  constexpr const char* kRow =
      "{:>7}  {:>7}  {:>7}  {:>8}  {:>9}  {:>7}  {:>5}  {:>9}  {:>9}  {:>6}  "
      "{}\n";
  std::string text = headline(status) + "\n";
  text += fmt::format(fmt::runtime(kRow), "process", "workers", "threads",
                      "memory", "rows", "rows/s", "busy", "sent", "received",
                      "losses", "name");
  for (const Process& node : status.progress.processes) {
    std::string name = printable(node.name, kLongestLine) + gpus_of(node);
    if (node.has_left()) {
      name += " (left: " + printable(node.cause, kLongestLine) + ")";
    } else if (node.status == "encodes") {
      name += " (encodes the prompts)";
    }
    text +=
        fmt::format(fmt::runtime(kRow), node.process, node.work.workers,
                    node.work.threads, memory_text(node.means.memory_bytes),
                    node.work.rows, rate_text(node.work.rows_per_second()),
                    fmt::format("{:.0f} %", node.work.busy_share() * 100),
                    human_bytes(node.bytes_sent),
                    human_bytes(node.bytes_received), node.work.losses, name);
  }
  return text;
}

void show(const Invocation& invocation, const JobStatus& status) {
  if (invocation.config.json) {
    say(stdout, dump(document(invocation.summary, status)));
  } else {
    const bool redraws = invocation.config.follow && can_redraw(stdout);
    const std::string text = (redraws ? "\x1b[H\x1b[J" : "") + table_of(status);
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
  }
  (void)std::fflush(stdout);
}

/// Where the job had not begun: when its prompts are encoded, it comes to the
/// same address with other links. Nothing: it has not come.
std::optional<ClientAnswer> look_again(const Invocation& invocation,
                                       std::unique_ptr<JobClient>& job) {
  try {
    job = dial_job(invocation, kClientRole);
    return job->ask(AskStatus{}, kClientPatience, {});
  } catch (const Error& error) {
    if (error.code() != Errc::unreachable) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace

int run_ls(Invocation& invocation) {
  std::unique_ptr<JobClient> job = dial_job(invocation, kClientRole);
  bool has_seen_it = false;
  auto answer = job->ask(AskStatus{}, kClientPatience, {});
  while (answer) {
    const auto* status = std::get_if<JobStatus>(&*answer);
    require(status != nullptr, Errc::corrupt_file, invocation.files.front(),
            "the job says something else than was asked");
    if (!invocation.config.follow) {
      invocation.take_last_word();
    }
    show(invocation, *status);
    if (!invocation.config.follow) {
      return 0;
    }
    has_seen_it = true;
    const bool has_begun = status->progress.calls_total > 0;
    std::this_thread::sleep_for(kBetweenLooks);
    answer = job->ask(AskStatus{}, kClientPatience, {});
    if (!answer && !has_begun) {
      answer = look_again(invocation, job);
    }
  }
  require(has_seen_it, Errc::unreachable, invocation.files.front(),
          "the job there is over");
  invocation.take_last_word();
  if (!invocation.config.quiet) {
    say(stderr, "troupe: the job is over");
  }
  return 0;
}

}  // namespace troupe::actors
