#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/core/boundary.h"
#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"

namespace troupe::samplers {

/// Which forward passes a row stands for: both guidance branches combined (one
/// pass when the job has no guidance), or one branch alone.
enum class Branch : std::uint8_t { guided, cond, uncond };

/// One row of a forward pass through the whole network.
struct EvaluateRow {
  std::uint64_t sample_index = 0;  ///< global; selects the condition
  Branch branch = Branch::guided;
  double timestep = 0;
  Tensor latents;  ///< [C, …] f32, already scaled for the model
  Tensor output;   ///< [out_channels, …] f32, allocated by the caller
};

/// One row of a pass that may leave out blocks of the network.
struct CachedRow : EvaluateRow {
  /// How far what the first blocks add may be from the cache, relative to it.
  double threshold = 0;
  /// In: what an earlier evaluation of the sample left; empty: none. Out: what
  /// this one leaves.
  Boundary cache = {};
  bool is_reused = false;  ///< out: the cache stood in for blocks
};

/// One row through segment `segment`. Both branches travel together.
struct SegmentRow {
  std::uint64_t sample_index = 0;
  double timestep = 0;
  Tensor latents;     ///< segment 0 only
  Boundary boundary;  ///< in: from the segment before; out: for the one after
  /// Of an onion cut. Output with `keeps_skips`: the skips for the segment's
  /// mirror, which are left out of `boundary`. Input of the mirror.
  Boundary skips;
  bool keeps_skips = false;
  Tensor output;  ///< last segment only, as in EvaluateRow
};

/// Port: what samplers know of a network. `actors` adapts a models::Denoiser to
/// it. Rows are independent, in values and in bits. Tensors are on ctx's device
/// unless a function says otherwise, and work there is queued, not waited for.
/// Thread: any, one ctx per thread.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  [[nodiscard]] virtual Shape latent_shape() const = 0;
  [[nodiscard]] virtual std::int64_t out_channels() const = 0;
  virtual void evaluate(ExecContext& ctx, std::span<EvaluateRow> rows) = 0;
  /// As `evaluate`, but where the first blocks of a row add nearly what they
  /// added when its cache was made, the other blocks add what they added then
  /// (models/network/block_cache.h). Both branches of a row decide together.
  /// Errors: Errc::unsupported for networks whose blocks cannot be left out.
  virtual void evaluate_cached(ExecContext& /*ctx*/,
                               std::span<CachedRow> /*rows*/) {
    throw Error(Errc::unsupported, "network",
                "its blocks cannot be left out: got a task with a cache");
  }
  /// Joins the two branches of a row (Branch::cond, Branch::uncond outputs).
  virtual void combine(ExecContext& ctx, double timestep, const Tensor& cond,
                       const Tensor& uncond, Tensor& out) = 0;
  [[nodiscard]] virtual int num_segments() const = 0;
  virtual void run_segment(ExecContext& ctx, int segment,
                           std::span<SegmentRow> rows) = 0;
  /// Ticks (ExecContext::ticks) of one row with all its branches through the
  /// whole network; 0: not known.
  [[nodiscard]] virtual std::uint64_t ticks_per_row() const { return 0; }
  /// Where the first NaN or infinity of a row's forward pass appears, as
  /// "block 7"; empty when all is finite or it cannot be said. May run the
  /// network once more: for the words of an error.
  [[nodiscard]] virtual std::string first_non_finite(
      ExecContext& /*ctx*/, const EvaluateRow& /*row*/) {
    return {};
  }
  /// Latents of a finished sample to pixels [3, H', W'] f32 in [−1, 1], each on
  /// the host or on ctx's device.
  virtual void decode(ExecContext& ctx, const Tensor& latents,
                      Tensor& pixels) = 0;
};

}  // namespace troupe::samplers
