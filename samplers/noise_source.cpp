#include "samplers/noise_source.h"

#include <algorithm>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/noise.h"

namespace troupe::samplers {

void PhiloxNoise::initial(std::uint64_t sample_index, Tensor& out) {
  fill_normal({seed_, sample_index, 0, NoisePurpose::initial_latents}, out);
}

void PhiloxNoise::step(std::uint64_t sample_index, int call, Tensor& out) {
  fill_normal({seed_, sample_index, static_cast<std::uint32_t>(call),
               NoisePurpose::step},
              out);
}

TorchNoise::TorchNoise(std::uint64_t seed, const Schedule& schedule,
                       InitialLatents latents)
    : seed_(seed), latents_(latents) {
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

TorchNoise::Stream& TorchNoise::stream(std::uint64_t sample_index) {
  if (!streams_.contains(sample_index) && streams_.size() >= kMaxStreams) {
    streams_.erase(std::min_element(
        streams_.begin(), streams_.end(), [](const auto& a, const auto& b) {
          return a.second.last_use < b.second.last_use;
        }));
  }
  Stream& found = streams_[sample_index];
  if (found.states.empty()) {
    found.states.emplace_back(seed_ + sample_index);
  }
  found.last_use = ++clock_;
  return found;
}

void TorchNoise::draw(std::uint64_t sample_index, std::size_t index,
                      Tensor& out) {
  const std::lock_guard lock(mutex_);
  Stream& found = stream(sample_index);
  for (std::size_t d = std::min(index, found.states.size() - 1); d <= index;
       ++d) {
    TorchGenerator generator = found.states[d];
    generator.fill_normal(out);
    if (d + 1 == found.states.size()) {
      found.states.push_back(generator);
    }
  }
}

}  // namespace troupe::samplers
