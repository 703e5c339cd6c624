// The part of CoordinatorPolicy for samples that are not wanted any more.

#include <algorithm>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {

/// A sample whose result is on its way home has nothing left to compute: the
/// cancel has no effect.
void CoordinatorPolicy::handle(const CancelSample& event) {
  const std::uint64_t index = event.sample_index;
  const auto found = samples_.find(index);
  if (found == samples_.end()) {
    cancel_waiting(index);
  } else if (!is_coming_home(found->second)) {
    ended_totals_.calls_total += found->second.method->accepted();
    drop_wanted(index);
    end_sample(index, SampleStatus::cancelled, {});
  }
}

/// No process knows the sample yet. The index of an ended sample, or of no
/// sample of this job, is not found among the waiting ones: then nothing
/// happens.
void CoordinatorPolicy::cancel_waiting(std::uint64_t index) {
  const auto first =
      options_.samples.begin() + static_cast<std::ptrdiff_t>(next_sample_);
  if (std::find(first, options_.samples.end(), index) ==
      options_.samples.end()) {
    return;
  }
  drop_wanted(index);
  options_.begun.erase(index);
  ++ended_totals_.samples_cancelled;
  commands_.push_back(EndSample{{index, SampleStatus::cancelled},
                                samplers::kInitialSlot,
                                options_.first_run});
  end_if_hopeless();
}

void CoordinatorPolicy::drop_wanted(std::uint64_t index) {
  const auto found = std::ranges::find(options_.samples, index);
  const auto place = static_cast<std::size_t>(found - options_.samples.begin());
  next_sample_ -= place < next_sample_ ? 1 : 0;
  options_.samples.erase(found);
}

/// Whether the sample is computed, and only its result is still to be fetched.
bool CoordinatorPolicy::is_coming_home(const Sample& sample) const {
  return sample.method->done() && (sample.is_decoded || !options_.decode);
}

}  // namespace troupe::actors
