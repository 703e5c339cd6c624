#include "actors/process_tally.h"

namespace troupe::actors {

namespace {

double seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ProcessTally::Entry& ProcessTally::at(int process) {
  Entry& entry = entries_[process];
  entry.process.process = process;
  return entry;
}

void ProcessTally::set_means(int process, const ProcessMeans& means) {
  at(process).process.means = means;
}

void ProcessTally::add_worker(int process, int threads) {
  ProcessWork& work = at(process).process.work;
  ++work.workers;
  work.threads += threads;
}

void ProcessTally::came_up(int process, TimePoint now) {
  Entry& entry = at(process);
  if (!entry.since) {
    entry.since = now;
  }
}

void ProcessTally::worked(int process, Duration busy) {
  at(process).process.work.busy_seconds += seconds(busy);
}

void ProcessTally::finished_task(int process, bool is_row) {
  ProcessWork& work = at(process).process.work;
  ++work.tasks;
  work.rows += is_row ? 1 : 0;
}

void ProcessTally::lost_worker(int process) {
  ++at(process).process.work.losses;
}

void ProcessTally::left(int process, TimePoint now) {
  Entry& entry = at(process);
  if (!entry.until) {
    entry.until = now;
  }
}

std::uint64_t ProcessTally::machine_of(int process) const {
  const auto found = entries_.find(process);
  return found == entries_.end() ? 0 : found->second.process.means.machine;
}

const ProcessMeans* ProcessTally::means_of(int process) const {
  const auto found = entries_.find(process);
  return found == entries_.end() ? nullptr : &found->second.process.means;
}

std::vector<Process> ProcessTally::processes(TimePoint now) const {
  std::vector<Process> all;
  all.reserve(entries_.size());
  for (const auto& [process, entry] : entries_) {
    Process& one = all.emplace_back(entry.process);
    if (entry.since) {
      one.work.present_seconds =
          seconds(entry.until.value_or(now) - *entry.since);
    }
  }
  return all;
}

}  // namespace troupe::actors
