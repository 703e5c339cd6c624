#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/denoiser.h"
#include "samplers/options.h"

// Where a job's network is cut, and what that costs: segment s is blocks
// [cuts[s], cuts[s + 1]).

namespace troupe::actors {

/// Cuts a network into the method's segments so that the part that takes its
/// worker longest is as quick as can be. Errors: those of cut_blocks and
/// cut_onion.
[[nodiscard]] std::vector<int> balanced_cuts(
    const models::DenoiserInfo& info, const samplers::MethodOptions& method);

/// Of the network's work, by segment; they add up to 1.
[[nodiscard]] std::vector<double> segment_shares(
    const models::DenoiserInfo& info, std::span<const int> cuts);

/// Bytes of one row.
struct CutBytes {
  std::uint64_t crossing = 0;  ///< from part to part in a call, all together
  std::uint64_t boundary = 0;  ///< from one segment to the next, at most
  std::uint64_t skips = 0;     ///< that a segment keeps for its mirror, at most
  std::vector<std::uint64_t> sent = {};  ///< by each segment to the next
};
[[nodiscard]] CutBytes bytes_of_cuts(const models::DenoiserInfo& info,
                                     std::span<const int> cuts,
                                     samplers::CutShape shape);

/// How fast a job's workers and the links between them are.
struct CutPace {
  double row_seconds = 0;  ///< of the whole network, by a worker of speed 1
  double bytes_per_second = 0;
  double latency = 0;  ///< of a message, in seconds
  /// Model calls that are under way at once: samples in flight, or an exact
  /// call and its stale ones.
  double calls_at_once = 1;
};

/// Of a job of so many samples: a pipeline has two samples in flight for each
/// part, and in a stale one each step of age is one call more.
[[nodiscard]] double calls_at_once(const samplers::MethodOptions& method,
                                   std::uint64_t num_samples);

/// Seconds of a model call in the steady state, for one row: the largest of
/// what the busiest worker takes, what its link takes, and the way of one call
/// through all parts ÷ the calls at once.
[[nodiscard]] double seconds_per_call(const models::DenoiserInfo& info,
                                      const samplers::MethodOptions& method,
                                      const CutPace& pace);

/// The shape that takes less time, or of two alike the one that sends less. A
/// chain where the method cannot have an onion of this network. Pure.
[[nodiscard]] samplers::CutShape cheaper_cut(
    const models::DenoiserInfo& info, const samplers::MethodOptions& method,
    const CutPace& pace);

}  // namespace troupe::actors
