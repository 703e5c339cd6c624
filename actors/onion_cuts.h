#pragma once

#include <span>
#include <vector>

#include "models/denoiser.h"

// Cuts of a network like an onion: layer p has blocks [cuts[p], cuts[p + 1])
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

}  // namespace troupe::actors
