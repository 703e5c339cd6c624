#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "samplers/parallel/marked_graph.h"

namespace troupe::samplers {
namespace {

std::vector<int> cut_ages(const MethodOptions& options) {
  const auto cuts = static_cast<std::size_t>(options.num_segments - 1);
  std::vector<int> ages = options.ages;
  if (ages.empty()) {
    ages.assign(cuts, options.age);
  }
  if (ages.size() != cuts) {
    throw Error(Errc::invalid_argument, "ages",
                "one age per cut: got " + std::to_string(ages.size()) +
                    ", expected " + std::to_string(cuts) + " for " +
                    std::to_string(options.num_segments) + " segments");
  }
  for (const int age : ages) {
    if (age < 0) {
      throw Error(Errc::invalid_argument, "ages",
                  "an age counts steps: got " + std::to_string(age) +
                      ", expected 0 or more");
    }
  }
  return ages;
}

}  // namespace

MarkedGraph make_stale_graph(const MethodOptions& options) {
  const int segments = options.num_segments;
  if (segments < 1) {
    throw Error(Errc::invalid_argument, "num_segments",
                "got " + std::to_string(segments) + ", expected 1 or more");
  }
  if (options.stride != 1 && options.stride != 2) {
    throw Error(Errc::invalid_argument, "stride",
                "got " + std::to_string(options.stride) + ", expected 1 or 2");
  }
  const std::vector<int> ages = cut_ages(options);
  const bool twice = options.stride == 2;
  const int last = segments - 1;
  const int solver = twice ? segments + 1 : segments;

  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
  for (int i = 0; i < segments; ++i) {
    nodes.push_back({.name = "segment " + std::to_string(i),
                     .part = i,
                     .segment = i,
                     .cost = 1,
                     .stride = options.stride,
                     .timestep_offset = twice && i < last ? 1 : 0});
    if (i == 0) {
      edges.push_back({.from = {solver}, .to = 0, .lag = 1});
    } else {
      edges.push_back({.from = {i - 1},
                       .to = i,
                       .age = ages[static_cast<std::size_t>(i - 1)]});
    }
  }
  std::vector<int> outputs = {last};
  if (twice) {
    nodes.push_back({.name = "segment " + std::to_string(last) + " again",
                     .part = segments,
                     .segment = last,
                     .cost = 1,
                     .stride = 2,
                     .phase = 1,
                     .fresh = false});
    GraphEdge input = edges.back();
    input.to = segments;
    ++input.age;
    edges.push_back(std::move(input));
    outputs.push_back(segments);
  }
  nodes.push_back({.name = "step"});
  edges.push_back({.from = {solver}, .to = solver, .lag = 1});
  edges.push_back({.from = std::move(outputs), .to = solver});
  return {std::move(nodes), std::move(edges), options.warmup_steps,
          options.final_fresh_steps};
}

}  // namespace troupe::samplers
