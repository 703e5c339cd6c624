#include "actors/process_tally.h"

namespace troupe::actors {

double ProcessFigures::busy_share() const {
  const double whole = std::chrono::duration<double>(present).count() * workers;
  return whole > 0 ? std::chrono::duration<double>(busy).count() / whole : 0;
}

ProcessTally::Entry& ProcessTally::at(int process) {
  Entry& entry = entries_[process];
  entry.figures.process = process;
  return entry;
}

void ProcessTally::set_means(int process, const ProcessMeans& means) {
  at(process).figures.means = means;
}

void ProcessTally::add_worker(int process, int threads) {
  ProcessFigures& figures = at(process).figures;
  ++figures.workers;
  figures.threads += threads;
}

void ProcessTally::came_up(int process, TimePoint now) {
  Entry& entry = at(process);
  if (!entry.since) {
    entry.since = now;
  }
}

void ProcessTally::worked(int process, Duration busy) {
  at(process).figures.busy += busy;
}

void ProcessTally::finished_task(int process, bool is_row) {
  ProcessFigures& figures = at(process).figures;
  ++figures.tasks;
  figures.rows += is_row ? 1 : 0;
}

void ProcessTally::lost_worker(int process) { ++at(process).figures.losses; }

void ProcessTally::left(int process, TimePoint now) {
  Entry& entry = at(process);
  if (!entry.until) {
    entry.until = now;
  }
}

std::uint64_t ProcessTally::machine_of(int process) const {
  const auto found = entries_.find(process);
  return found == entries_.end() ? 0 : found->second.figures.means.machine;
}

const ProcessMeans* ProcessTally::means_of(int process) const {
  const auto found = entries_.find(process);
  return found == entries_.end() ? nullptr : &found->second.figures.means;
}

std::vector<ProcessFigures> ProcessTally::figures(TimePoint now) const {
  std::vector<ProcessFigures> all;
  all.reserve(entries_.size());
  for (const auto& [process, entry] : entries_) {
    ProcessFigures& figures = all.emplace_back(entry.figures);
    if (entry.since) {
      figures.present = entry.until.value_or(now) - *entry.since;
    }
  }
  return all;
}

}  // namespace troupe::actors
