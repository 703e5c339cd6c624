#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/core/context.h"
#include "models/condition.h"
#include "models/network/driver.h"
#include "models/network/network.h"

namespace troupe::models {

/// A tensor of a boundary, for one row.
struct TensorKind {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;

  [[nodiscard]] std::size_t num_bytes() const {
    return static_cast<std::size_t>(shape.num_elements()) * size_of(dtype);
  }
};

/// The timestep of metered passes.
inline constexpr double kMeteredTimestep = 500;

/// What a whole network costs for one row of latents of one shape.
struct NetworkFigures {
  double embed_flops = 0;
  double finish_flops = 0;
  std::vector<double> block_flops;
  /// What passes in front of block i, and at the end behind the last one.
  std::vector<std::vector<TensorKind>> boundaries;
};

/// A network on a meter (kernels/core/meter.h): it runs the network's own code
/// and says what that costs. Thread: any.
class NetworkMeter {
 public:
  /// network: whole, read by a LayerReader that meters on ctx. condition: any
  /// that it takes.
  NetworkMeter(std::unique_ptr<ExecContext> ctx,
               std::unique_ptr<const Network> network, Condition condition);

  /// Errors: Errc::shape_mismatch for latents that the network does not take.
  [[nodiscard]] const NetworkFigures& figures(const Shape& latents) const;

 private:
  [[nodiscard]] NetworkFigures measure(const Shape& latents) const;

  std::unique_ptr<ExecContext> ctx_;
  NetworkDriver driver_;
  PreparedPtr prepared_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::int64_t>, NetworkFigures> known_;
};

}  // namespace troupe::models
