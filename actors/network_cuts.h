#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/network/denoiser.h"
#include "samplers/options.h"

// Where a job's network is cut, and what that costs: segment s is blocks
// [cuts[s], cuts[s + 1]).
//
// Of a network cut like an onion, layer p has blocks [cuts[p], cuts[p + 1])
// and, on the way outward, those between the cuts of its other side. With N
// parts there are 2 N cuts, from 0 to the number of blocks.

namespace troupe::actors {

/// The most parts that an onion of this network can have; 0: it has no skips,
/// so an onion would send more and spare nothing. Cost: the square of the pairs
/// of cuts that keep skips at home.
[[nodiscard]] int most_onion_parts(const models::DenoiserInfo& info);

/// Whether no skip crosses a cut: a part reads all its own skips, and no skips
/// of other parts.
[[nodiscard]] bool keep_skips_at_home(std::span<const models::SkipInfo> skips,
                                      std::span<const int> cuts);

/// Cuts so that no skip crosses a cut and the part that takes longest is as
/// quick as can be. Of several such cuts those are taken that hand on the
/// fewest bytes, and then the outermost ones.
///
/// costs: of the blocks; speeds: of the parts' workers, from the outermost on,
/// relative to each other; empty: all alike.
/// Errors: Errc::invalid_argument unless 1 <= num_parts <= most_onion_parts, or
/// when !are_speeds_of(speeds, num_parts).
/// Cost: num_parts times the square of the pairs of cuts that keep skips at
/// home.
[[nodiscard]] std::vector<int> cut_onion(const models::DenoiserInfo& info,
                                         std::span<const double> costs,
                                         int num_parts,
                                         std::span<const double> speeds = {});

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
