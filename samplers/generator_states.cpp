#include "samplers/generator_states.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace troupe::samplers {

GeneratorStates::GeneratorStates(std::uint64_t seed, std::size_t most_states)
    : seed_(seed), most_states_(most_states) {}

GeneratorStates::Nearest GeneratorStates::nearest(std::uint64_t sample_index,
                                                  std::size_t draw) {
  const auto found = streams_.find(sample_index);
  if (found != streams_.end()) {
    found->second.last_use = ++clock_;
    const States& states = found->second.states;
    const auto after = states.upper_bound(draw);
    if (after != states.begin()) {
      const auto& [at, generator] = *std::prev(after);
      return {at, generator};
    }
  }
  return {0, TorchGenerator(seed_ + sample_index)};
}

void GeneratorStates::keep(std::uint64_t sample_index, std::size_t draw,
                           const TorchGenerator& generator) {
  Stream& stream = streams_[sample_index];
  stream.last_use = ++clock_;
  const bool is_new = stream.states.emplace(draw, generator).second;
  if (is_new && ++num_states_ > most_states_) {
    make_room();
  }
}

/// A quarter at once, so that it is seldom asked for.
void GeneratorStates::make_room() {
  const std::size_t wanted = most_states_ - most_states_ / 4;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> by_use;
  for (const auto& [sample_index, stream] : streams_) {
    by_use.emplace_back(stream.last_use, sample_index);
  }
  std::ranges::sort(by_use);
  for (const auto& [last_use, sample_index] : by_use) {
    if (num_states_ <= wanted) {
      return;
    }
    States& states = streams_.at(sample_index).states;
    num_states_ -= states.size() - 1;
    states.erase(states.begin(), std::prev(states.end()));
  }
  if (num_states_ <= most_states_) {
    return;
  }
  for (const auto& [last_use, sample_index] : by_use) {
    if (num_states_ <= wanted) {
      return;
    }
    streams_.erase(sample_index);
    --num_states_;
  }
}

}  // namespace troupe::samplers
