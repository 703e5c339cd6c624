#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/core/torch_noise.h"

namespace troupe::samplers {

/// States of one torch.Generator per sample, each before one of its draws. A
/// state that is not held is reached again by drawing from an earlier one.
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

}  // namespace troupe::samplers
