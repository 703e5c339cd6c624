#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/job_status.h"
#include "kernels/core/fields.h"

/// The fields of a job's status, listed once: for messages (actors/wire), JSON
/// and `troupe help json`.
namespace troupe::actors {

/// Of the name of a process, and of why the process left.
inline constexpr std::uint64_t kMostName = 128;
/// Of a sentence.
inline constexpr std::uint64_t kMostText = 1024;
/// Of a job: its status has no more.
inline constexpr std::uint64_t kMostClientNodes = 2048;
// Of one process in a job's status: so a status has room for all processes.
inline constexpr std::uint64_t kMostShownDevices = 16;
inline constexpr std::uint64_t kMostShownClasses = 4;

/// A device of a process, as JSON shows it.
struct ShownDevice {
  std::string name;
  std::uint64_t memory_bytes = 0;
};

void visit_fields(auto& visit, AnyConst<ShownDevice> auto& r) {
  visit({"name", "cpu, or cuda:N with its model"}, r.name);
  visit({"memory_bytes", "all of a GPU's; of the CPU that of the process"},
        r.memory_bytes);
}

[[nodiscard]] inline std::vector<ShownDevice> shown_devices(
    const ProcessMeans& means) {
  std::vector<ShownDevice> shown;
  for (const DeviceMeans& one : means.devices) {
    const bool is_cpu = one.device.kind == DeviceKind::cpu;
    shown.push_back(
        {label_of(one), is_cpu ? means.memory_bytes : one.memory_bytes});
  }
  return shown;
}

template <typename Visitor, AnyConst<Process> T>
void visit_fields(Visitor& visit, T& r) {
  visit(cut_to(kMostName, {"name", "host and process"}), r.name);
  visit({"process", "its number in the job; 0: this process"}, r.process);
  visit({"workers", "workers that it brought"}, r.work.workers);
  visit({"threads", "of the host, that they compute on"}, r.work.threads);
  if constexpr (ShowsFields<Visitor>) {
    visit(
        {"memory_bytes", "of the host, that it may use; 0: it has not joined"},
        r.means.memory_bytes);
    visit({"available_memory_bytes", "of these, what was left when it joined"},
          r.means.available_memory_bytes);
    visit({"devices", "that its workers compute on"}, shown_devices(r.means));
  } else {
    visit("means", r.means);
  }
  visit(cut_to(kMostShownClasses,
               {"execution_classes",
                "of its workers, by name; empty until it has joined"}),
        r.execution_classes);
  visit({"tasks", "tasks of theirs whose results counted"}, r.work.tasks);
  visit({"rows",
         "of these, rows that passed the network; each segment counts as one"},
        r.work.rows);
  if constexpr (ShowsFields<Visitor>) {
    visit({"rows_per_second",
           "the mean of the seconds that it was there; 0: not known"},
          r.work.rows_per_second());
  }
  visit({"busy_seconds", "busy time, summed over its workers"},
        r.work.busy_seconds);
  if constexpr (ShowsFields<Visitor>) {
    visit({"busy_share", "that by workers times the seconds it was there"},
          r.work.busy_share());
  } else {
    visit("present_seconds", r.work.present_seconds);
  }
  visit({"bytes_sent", "tensor bytes sent over its links"}, r.bytes_sent);
  visit({"bytes_received", "tensor bytes fetched over them"}, r.bytes_received);
  visit({"losses", "losses of its workers"}, r.work.losses);
  visit({"status", "done, or left before the end"}, r.status);
  visit(cut_to(kMostName, if_any({"cause", "why it left; absent otherwise"})),
        r.cause);
}

template <typename Visitor, AnyConst<JobStatus> T>
void visit_fields(Visitor& visit, T& r) {
  visit(cut_to(kMostText, {"model", "folder name or bundled name"}), r.model);
  visit({"method", "parallel method"}, r.method);
  visit({"images_total", "images of the job, without cancelled ones"},
        r.progress.samples_total);
  visit({"images_done", "images that are done"}, r.progress.samples_done);
  visit({"images_failed", "images that failed"}, r.progress.samples_failed);
  visit({"images_cancelled", "images that were cancelled"},
        r.progress.samples_cancelled);
  visit({"calls_done", "network calls that are done"}, r.progress.calls_done);
  visit({"calls_total", "network calls of the job"}, r.progress.calls_total);
  if constexpr (ShowsFields<Visitor>) {
    visit({"fraction", "0 to 1, calls under way included"}, r.view().fraction);
    visit({"calls_per_second",
           "since the job began; 0: not known, or no worker is there"},
          r.view().calls_per_second);
  } else {
    visit("calls_under_way", r.progress.calls_under_way);
  }
  visit({"elapsed_seconds", "since the job began"}, r.elapsed_seconds);
  if constexpr (ShowsFields<Visitor>) {
    const double left = r.view().seconds_left;
    visit(or_null({"seconds_left", "at that speed; null: not known"}),
          left < 0 ? std::nullopt : std::optional(left));
  }
  visit({"waits_for_workers",
         "no worker is there; the job goes on when one joins"},
        r.progress.waits_for_workers);
  visit({"recoveries", "losses that the job survived"}, r.progress.recoveries);
  visit(cut_to(kMostClientNodes, {"nodes", "processes of the job"}),
        r.progress.processes);
}

}  // namespace troupe::actors
