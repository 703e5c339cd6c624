#include "actors/network_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "actors/plan.h"
#include "kernels/core/error.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

using models::DenoiserInfo;
using models::SkipInfo;
using samplers::CutShape;
using samplers::MethodOptions;

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The two sides of a cut: what lies between them is inside.
struct Ring {
  int inward = 0;
  int outward = 0;

  [[nodiscard]] bool encloses(const Ring& other) const {
    return inward < other.inward && other.outward < outward;
  }
};

/// Whether all skips that are made inside are taken there, and no others. What
/// crosses the cut inward may be a skip of the outside, too.
bool keeps_skips(std::span<const SkipInfo> skips, const Ring& ring) {
  return std::ranges::all_of(skips, [&ring](const SkipInfo& skip) {
    const bool is_made_inside =
        ring.inward < skip.made_before && skip.made_before <= ring.outward;
    const bool is_taken_inside =
        ring.inward <= skip.taken_by && skip.taken_by < ring.outward;
    return is_made_inside == is_taken_inside;
  });
}

/// The whole network first, then from the outside inward.
std::vector<Ring> rings_of(const DenoiserInfo& info) {
  const int count = static_cast<int>(info.blocks.size());
  std::vector<Ring> rings{{0, count}};
  for (int inward = 1; inward < count; ++inward) {
    for (int outward = count - 1; outward > inward; --outward) {
      if (keeps_skips(info.skips, {inward, outward})) {
        rings.push_back({inward, outward});
      }
    }
  }
  return rings;
}

/// Chooses rings, one inside the other.
class OnionCutter {
 public:
  OnionCutter(const DenoiserInfo& info, std::span<const double> costs,
              std::vector<double> speeds)
      : info_(info),
        rings_(rings_of(info)),
        speeds_(std::move(speeds)),
        sums_{0.0} {
    for (const double cost : costs) {
      sums_.push_back(sums_.back() + cost);
    }
  }

  [[nodiscard]] std::vector<int> cuts() {
    const double slowest = choose(kNever).least;
    // The same again, for the fewest bytes.
    return choose(slowest).cuts;
  }

 private:
  struct Choice {
    double least = kNever;
    std::vector<int> cuts;
  };

  [[nodiscard]] double sum(int begin, int end) const {
    return sums_[static_cast<std::size_t>(end)] -
           sums_[static_cast<std::size_t>(begin)];
  }
  /// Of the part between two rings.
  [[nodiscard]] double seconds(std::size_t part, const Ring& outer,
                               const Ring& inner) const {
    return (sum(outer.inward, inner.inward) +
            sum(inner.outward, outer.outward)) /
           speeds_[part];
  }
  [[nodiscard]] double seconds_of_core(const Ring& ring) const {
    return sum(ring.inward, ring.outward) / speeds_.back();
  }
  [[nodiscard]] double bytes(const Ring& ring) const {
    return static_cast<double>(info_.hidden_bytes(ring.inward) +
                               info_.hidden_bytes(ring.outward));
  }

  /// Without a limit, the least time of the part that takes longest. With one,
  /// the fewest bytes where no part takes longer.
  [[nodiscard]] Choice choose(double limit) const {
    const bool counts_bytes = limit != kNever;
    const auto join = [&](double before, double time, double its_bytes) {
      if (!counts_bytes) {
        return std::max(before, time);
      }
      return time <= limit ? before + its_bytes : kNever;
    };
    const std::size_t parts = speeds_.size();
    // best[p][r]: of parts before p, if ring r is the outer side of part p.
    std::vector<std::vector<double>> best(
        parts, std::vector<double>(rings_.size(), kNever));
    std::vector<std::vector<std::size_t>> from(
        parts, std::vector<std::size_t>(rings_.size(), 0));
    best[0][0] = 0;
    for (std::size_t p = 1; p < parts; ++p) {
      for (std::size_t r = 1; r < rings_.size(); ++r) {
        for (std::size_t outer = 0; outer < r; ++outer) {
          if (!rings_[outer].encloses(rings_[r])) {
            continue;
          }
          const double value =
              join(best[p - 1][outer], seconds(p - 1, rings_[outer], rings_[r]),
                   bytes(rings_[r]));
          if (value < best[p][r]) {
            best[p][r] = value;
            from[p][r] = outer;
          }
        }
      }
    }
    Choice choice;
    std::size_t core = 0;
    for (std::size_t r = 0; r < rings_.size(); ++r) {
      const double value =
          join(best[parts - 1][r], seconds_of_core(rings_[r]), 0);
      if (value < choice.least) {
        choice.least = value;
        core = r;
      }
    }
    for (std::size_t p = parts; p-- > 0; core = from[p][core]) {
      choice.cuts.insert(choice.cuts.begin(), rings_[core].inward);
      choice.cuts.push_back(rings_[core].outward);
    }
    return choice;
  }

  const DenoiserInfo& info_;
  std::vector<Ring> rings_;
  std::vector<double> speeds_;  ///< by part
  std::vector<double> sums_;    ///< of costs before each block
};

/// Of the blocks, with what goes before the first and behind the last.
std::vector<double> block_costs(const DenoiserInfo& info) {
  std::vector<double> costs;
  for (const models::BlockInfo& block : info.blocks) {
    costs.push_back(block.flops);
  }
  if (!costs.empty()) {
    costs.front() += info.embed_flops;
    costs.back() += info.finish_flops;
  }
  return costs;
}

/// What crosses a cut: the whole boundary, or without the skips.
std::uint64_t crossing_bytes(const DenoiserInfo& info, int cut,
                             CutShape shape) {
  return shape == CutShape::onion ? info.hidden_bytes(cut)
                                  : info.boundary_bytes(cut);
}

}  // namespace

int most_onion_parts(const DenoiserInfo& info) {
  if (info.skips.empty()) {
    return 0;
  }
  const std::vector<Ring> rings = rings_of(info);
  std::vector<int> parts(rings.size(), 1);  // if the ring is the core's
  for (std::size_t r = 1; r < rings.size(); ++r) {
    for (std::size_t outer = 0; outer < r; ++outer) {
      if (rings[outer].encloses(rings[r])) {
        parts[r] = std::max(parts[r], parts[outer] + 1);
      }
    }
  }
  return std::ranges::max(parts);
}

bool keep_skips_at_home(std::span<const SkipInfo> skips,
                        std::span<const int> cuts) {
  for (std::size_t i = 1; i < cuts.size() / 2; ++i) {
    if (!keeps_skips(skips, {cuts[i], cuts[cuts.size() - 1 - i]})) {
      return false;
    }
  }
  return true;
}

std::vector<int> cut_onion(const DenoiserInfo& info,
                           std::span<const double> costs, int num_parts,
                           std::span<const double> speeds) {
  const int most = most_onion_parts(info);
  require(num_parts >= 1 && num_parts <= most, Errc::invalid_argument,
          "segments",
          "an onion of this network cannot have so many parts: got " +
              std::to_string(num_parts) + ", expected 1 to " +
              std::to_string(most));
  require(are_speeds_of(speeds, num_parts), Errc::invalid_argument, "segments",
          "expected no speeds, or a positive number for each of " +
              std::to_string(num_parts) + " parts");
  std::vector<double> each(speeds.begin(), speeds.end());
  each.resize(static_cast<std::size_t>(num_parts), 1.0);
  return OnionCutter(info, costs, std::move(each)).cuts();
}

std::vector<int> balanced_cuts(const DenoiserInfo& info,
                               const MethodOptions& method) {
  const int parts = samplers::num_network_parts(method);
  if (parts == 1) {
    return {0, static_cast<int>(info.blocks.size())};
  }
  const std::vector<double> costs = block_costs(info);
  return method.cut == CutShape::onion
             ? cut_onion(info, costs, parts, method.segment_speeds)
             : cut_blocks(costs, parts, method.segment_speeds);
}

std::vector<double> segment_shares(const DenoiserInfo& info,
                                   std::span<const int> cuts) {
  const std::vector<double> costs = block_costs(info);
  const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
  std::vector<double> shares;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    shares.push_back(std::accumulate(costs.begin() + cuts[s],
                                     costs.begin() + cuts[s + 1], 0.0) /
                     all);
  }
  return shares;
}

CutBytes bytes_of_cuts(const DenoiserInfo& info, std::span<const int> cuts,
                       CutShape shape) {
  CutBytes bytes;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    if (s > 0) {
      const std::uint64_t one = crossing_bytes(info, cuts[s], shape);
      bytes.crossing += one;
      bytes.boundary = std::max(bytes.boundary, one);
      bytes.sent.push_back(one);
    }
    std::uint64_t kept = 0;
    for (const SkipInfo& skip : info.skips) {
      const bool is_its_own =
          (s == 0 ? skip.made_before >= 0 : skip.made_before > cuts[s]) &&
          skip.made_before <= cuts[s + 1];
      kept += is_its_own && skip.taken_by >= cuts[s + 1] ? skip.bytes : 0;
    }
    if (shape == CutShape::onion && s + 1 < cuts.size() / 2) {
      bytes.skips = std::max(bytes.skips, kept);
    }
  }
  return bytes;
}

double calls_at_once(const MethodOptions& method, std::uint64_t num_samples) {
  const auto approximates = method.kind->approximates;
  if (approximates == nullptr || !approximates(method)) {
    const int parts = samplers::num_parts(method);
    const int most = method.kind->in_flight(parts, 1).most;
    return static_cast<double>(
        std::min<std::uint64_t>(num_samples, static_cast<unsigned>(most)));
  }
  const int ages = method.ages.empty() ? method.age * (method.num_segments - 1)
                                       : std::accumulate(method.ages.begin(),
                                                         method.ages.end(), 0);
  return 1.0 + ages;
}

double seconds_per_call(const DenoiserInfo& info, const MethodOptions& method,
                        const CutPace& pace) {
  const std::vector<int> cuts = balanced_cuts(info, method);
  const std::vector<double> shares = segment_shares(info, cuts);
  const auto parts =
      static_cast<std::size_t>(samplers::num_network_parts(method));
  std::vector<double> compute(parts);
  std::vector<double> send(parts);
  double way = 0;
  for (std::size_t s = 0; s < shares.size(); ++s) {
    const auto part = static_cast<std::size_t>(
        samplers::part_of_segment(method, static_cast<int>(s)));
    const double speed =
        method.segment_speeds.empty() ? 1.0 : method.segment_speeds[part];
    compute[part] += pace.row_seconds * shares[s] / speed;
    way += pace.row_seconds * shares[s] / speed;
    if (s + 1 < shares.size()) {
      const double transfer =
          static_cast<double>(crossing_bytes(info, cuts[s + 1], method.cut)) /
          pace.bytes_per_second;
      send[part] += transfer;
      way += transfer + pace.latency;
    }
  }
  return std::max({std::ranges::max(compute), std::ranges::max(send),
                   way / pace.calls_at_once});
}

CutShape cheaper_cut(const DenoiserInfo& info, const MethodOptions& method,
                     const CutPace& pace) {
  const int parts = samplers::num_network_parts(method);
  if (parts < 2 || parts > most_onion_parts(info) || method.stride != 1) {
    return CutShape::chain;
  }
  MethodOptions chain = method;
  chain.cut = CutShape::chain;
  MethodOptions onion = method;
  onion.cut = CutShape::onion;
  const double by_chain = seconds_per_call(info, chain, pace);
  const double by_onion = seconds_per_call(info, onion, pace);
  const auto sent_by = [&info](const MethodOptions& options) {
    return bytes_of_cuts(info, balanced_cuts(info, options), options.cut)
        .crossing;
  };
  const bool takes_onion =
      by_onion < by_chain ||
      (by_onion == by_chain && sent_by(onion) < sent_by(chain));
  return takes_onion ? CutShape::onion : CutShape::chain;
}

}  // namespace troupe::actors
