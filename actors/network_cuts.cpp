#include "actors/network_cuts.h"

#include <algorithm>
#include <numeric>

#include "actors/onion_cuts.h"
#include "actors/plan.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {
namespace {

using models::DenoiserInfo;
using models::SkipInfo;
using samplers::CutShape;
using samplers::MethodOptions;

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
      kept += is_its_own && skip.taken_by >= cuts[s + 1]
                  ? info.hidden_bytes(skip.made_before)
                  : 0;
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
