// The part of Ledger for how samples and jobs end.

#include <algorithm>
#include <map>
#include <utility>

#include "tests/simulator/ledger.h"

namespace troupe::actors::simulator {
namespace {

/// The undisturbed end of a sample is the same in every scenario.
const PlainEnd& plain_end_of(const Variant& variant,
                             std::uint64_t sample_index) {
  static std::map<std::pair<std::size_t, std::uint64_t>, PlainEnd> ends;
  const auto key = std::pair(variant.number, sample_index);
  const auto found = ends.find(key);
  return found != ends.end()
             ? found->second
             : ends.emplace(key, plain_end(variant.method, *variant.schedule,
                                           sample_index))
                   .first->second;
}

}  // namespace

void Ledger::asked(const EndSample& end,
                   const std::shared_ptr<SymbolTable>& home) {
  const std::uint64_t index = end.report.sample_index;
  const std::string name = "sample " + std::to_string(index);
  expect(!has_ended_, name + " ends after the job");
  expect(ended_.insert(index).second, name + " ends twice");
  if (end.report.status == SampleStatus::failed) {
    expect(poisoned_.contains(index), name + " failed");
    ++num_failed_;
    forget_grants(index);
    samples_.erase(index);
    return;
  }
  if (end.report.status == SampleStatus::cancelled) {
    expect(unwanted_.contains(index),
           name + " is cancelled, and nobody asked for it");
    ++num_cancelled_;
    forget_grants(index);
    samples_.erase(index);
    return;
  }
  expect(end.report.execution_class == samples_[index].execution_class,
         name + " is reported in another execution class than it ran in");
  samples_.erase(index);
  const PlainEnd& plain = plain_end_of(*scenario_.variant, index);
  expect(home->find(end.result) == plain.latents,
         name + " has other latents than undisturbed");
  expect(!scenario_.decode || home->find(kPixelsSlot) == plain.pixels,
         name + " has other pixels than undisturbed");
  const samplers::Progress& progress = end.report.progress;
  expect(progress.nfe == plain.progress.nfe &&
             progress.rounds == plain.progress.rounds,
         name + " took other evaluations or rounds than undisturbed");
}

void Ledger::asked(const JobProgress& progress) {
  expect(progress.samples_done >= reported_, "progress went back");
  expect(progress.samples_done <= ended_.size(),
         "progress counts samples that have not ended");
  reported_ = progress.samples_done;
}

void Ledger::asked(const EndJob& end) {
  expect(!has_ended_, "the job ends twice");
  has_ended_ = true;
  if (end.failure) {
    const bool nobody_left =
        std::ranges::all_of(workers_, [](const Incarnation& worker) {
          return worker.is_gone || worker.drains;
        });
    gave_up_ =
        nobody_left ||
        static_cast<std::size_t>(num_failed_ + num_cancelled_) == ended_.size();
    expect(gave_up_, "the job was given up: " + end.failure->place + ": " +
                         end.failure->message);
    return;
  }
  expect(ended_.size() == static_cast<std::size_t>(scenario_.num_samples),
         "the job ends with " + std::to_string(ended_.size()) + " samples of " +
             std::to_string(scenario_.num_samples));
  expect(end.unfinished.empty(), "a job that is done has unfinished samples");
}

}  // namespace troupe::actors::simulator
