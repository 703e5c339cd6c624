#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "kernels/core/tensor.h"
#include "kernels/core/torch_noise.h"
#include "samplers/schedule.h"

namespace troupe::samplers {

/// Port: the noise of one job, and the trajectory that its guesses come from. A
/// pure function of its arguments, so it may be asked in any order and more
/// than once. Thread: any.
class NoiseSource {
 public:
  virtual ~NoiseSource() = default;
  /// Unit normals for the latents a sample starts from; out [C, …] f32.
  virtual void initial(std::uint64_t sample_index, Tensor& out) = 0;
  /// Unit normals for the step that follows model call `call`.
  virtual void step(std::uint64_t sample_index, int call, Tensor& out) = 0;
  /// A uniform number of (0, 1), by which a draft of that step is accepted.
  [[nodiscard]] virtual double uniform(std::uint64_t sample_index,
                                       int call) = 0;
  /// The latents of the given trajectory after so many model calls; out [C, …]
  /// f32. Errors: Errc::internal for a job without a trajectory.
  virtual void guess(std::uint64_t sample_index, int point, Tensor& out);
};

/// Our own noise: Philox keyed by (seed, sample, call, purpose, element).
class PhiloxNoise final : public NoiseSource {
 public:
  explicit PhiloxNoise(std::uint64_t seed) : seed_(seed) {}

  void initial(std::uint64_t sample_index, Tensor& out) override;
  void step(std::uint64_t sample_index, int call, Tensor& out) override;
  [[nodiscard]] double uniform(std::uint64_t sample_index, int call) override;

 private:
  std::uint64_t seed_;
};

/// States of torch.Generator, one generator per sample. A state stands before a
/// draw. A missing state is reached again by drawing from an earlier state.
///
/// At most `most_states` are held. Beyond that the samples that were used least
/// recently keep the state before their next draw alone, which is all that a
/// run without Picard asks for. Only with more samples than states are samples
/// forgotten.
/// Thread: one.
class GeneratorStates {
 public:
  explicit GeneratorStates(std::uint64_t seed,
                           std::size_t most_states = kMostStates);

  /// The last state that is held at or before this draw.
  struct Nearest {
    std::size_t draw;
    TorchGenerator generator;
  };
  [[nodiscard]] Nearest nearest(std::uint64_t sample_index, std::size_t draw);
  /// `generator` stands before this draw.
  void keep(std::uint64_t sample_index, std::size_t draw,
            const TorchGenerator& generator);
  [[nodiscard]] std::size_t size() const noexcept { return num_states_; }

 private:
  using States = std::map<std::size_t, TorchGenerator>;  ///< by draw
  struct Stream {
    States states;
    std::uint64_t last_use = 0;
  };

  void make_room();

  static constexpr std::size_t kMostStates =
      (std::size_t{64} << 20U) / sizeof(TorchGenerator);

  std::uint64_t seed_;
  std::size_t most_states_;
  std::map<std::uint64_t, Stream> streams_;
  std::size_t num_states_ = 0;
  std::uint64_t clock_ = 0;
};

/// Whether a generator draws the latents a sample starts from. Latents that are
/// given are not drawn: the first draw is the first step's, as in diffusers.
enum class InitialLatents : std::uint8_t { drawn, given };

/// The numbers a diffusers user gets: one CPU torch.Generator per sample,
/// seeded with seed + sample_index, which draws the initial latents (unless
/// they are given) and then once for every step of the schedule that draws
/// (Schedule::draws_noise).
/// A late draw replays the earlier ones. Generator states are kept
/// (GeneratorStates), so going on is as cheap with many samples in flight as
/// with one, and going back is cheap for those used last.
///
/// All tensors of one job have the same number of elements.
/// Errors: Errc::invalid_argument for a call whose step draws nothing, and for
/// initial latents that are given.
class TorchNoise final : public NoiseSource {
 public:
  TorchNoise(std::uint64_t seed, const Schedule& schedule,
             InitialLatents latents = InitialLatents::drawn);

  void initial(std::uint64_t sample_index, Tensor& out) override;
  void step(std::uint64_t sample_index, int call, Tensor& out) override;
  /// PhiloxNoise's: diffusers has none, and it moves no generator.
  [[nodiscard]] double uniform(std::uint64_t sample_index, int call) override {
    return uniform_.uniform(sample_index, call);
  }

 private:
  void draw(std::uint64_t sample_index, std::size_t index, Tensor& out);

  PhiloxNoise uniform_;
  InitialLatents latents_;
  std::vector<std::optional<std::size_t>> draw_of_call_;
  std::mutex mutex_;
  GeneratorStates states_;
};

}  // namespace troupe::samplers
