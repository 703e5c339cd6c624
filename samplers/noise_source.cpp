#include "samplers/noise_source.h"

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
    : latents_(latents), states_(seed) {
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
