#include "samplers/noise_source.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/noise.h"

namespace troupe::samplers {

void NoiseSource::guess(std::uint64_t /*sample_index*/, int /*point*/,
                        Tensor& /*out*/) {
  throw Error(Errc::internal, "guess", "the job has no trajectory");
}

void PhiloxNoise::initial(std::uint64_t sample_index, Tensor& out) {
  fill_normal({seed_, sample_index, 0, NoisePurpose::initial_latents}, out);
}

void PhiloxNoise::step(std::uint64_t sample_index, int call, Tensor& out) {
  fill_normal({seed_, sample_index, static_cast<std::uint32_t>(call),
               NoisePurpose::step},
              out);
}

double PhiloxNoise::uniform(std::uint64_t sample_index, int call) {
  return uniform_number({seed_, sample_index, static_cast<std::uint32_t>(call),
                         NoisePurpose::acceptance});
}

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

/// Frees a quarter of the states at once, so that calls are rare.
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

TorchNoise::TorchNoise(std::uint64_t seed, const Schedule& schedule,
                       InitialLatents latents)
    : uniform_(seed), latents_(latents), states_(seed) {
  std::size_t draws = latents == InitialLatents::drawn ? 1 : 0;
  for (int call = 0; call < schedule.num_model_calls(); ++call) {
    draw_of_call_.push_back(schedule.draws_noise(call)
                                ? std::optional<std::size_t>(draws++)
                                : std::nullopt);
  }
}

void TorchNoise::initial(std::uint64_t sample_index, Tensor& out) {
  require(latents_ == InitialLatents::drawn, Errc::invalid_argument,
          "torch noise", "the initial latents are given: none are drawn");
  draw(sample_index, 0, out);
}

void TorchNoise::step(std::uint64_t sample_index, int call, Tensor& out) {
  const auto index = static_cast<std::size_t>(call);
  if (call < 0 || index >= draw_of_call_.size() || !draw_of_call_[index]) {
    throw Error(Errc::invalid_argument, "torch noise",
                "model call " + std::to_string(call) +
                    ": its step draws no noise in this schedule");
  }
  draw(sample_index, *draw_of_call_[index], out);
}

void TorchNoise::draw(std::uint64_t sample_index, std::size_t index,
                      Tensor& out) {
  const std::lock_guard lock(mutex_);
  auto [at, generator] = states_.nearest(sample_index, index);
  for (; at <= index; ++at) {
    generator.fill_normal(out);
    states_.keep(sample_index, at + 1, generator);
  }
}

}  // namespace troupe::samplers
