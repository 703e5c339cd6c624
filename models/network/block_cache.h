#pragma once

#include <cstddef>
#include <span>

#include "kernels/core/boundary.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "models/network/denoiser.h"

namespace troupe::models {

/// Rows of a batch that stand behind one another and decide together whether
/// they leave out blocks: the branches of guidance of one latent.
struct CachedRows {
  std::size_t size = 1;  ///< at least one
  /// Of ‖r − c‖ / ‖c‖, all rows together: r is what the first block adds to the
  /// hidden state, c what it added in the pass that made the cache. Below it
  /// the blocks after the first are left out. 0: never.
  double threshold = 0;
  /// In: of an earlier pass, on the context's device. A cache of more or fewer
  /// rows counts as none. Out: what a later pass may reuse: for each row what
  /// the first block added to each stream, and then what all later blocks added
  /// together. The same as before if blocks were left out.
  Boundary cache = {};
  bool is_reused = false;  ///< out: blocks were left out
};

/// Whether blocks of such a network can be left out: it is a chain of at least
/// two blocks without skips, whose hidden state keeps its shape.
[[nodiscard]] bool can_leave_out_blocks(const DenoiserInfo& info);

/// Bytes of CachedRows::cache for one row.
[[nodiscard]] std::size_t cache_bytes(const DenoiserInfo& info);

/// As Denoiser::predict, but rows whose first block adds nearly what it added
/// in an earlier pass add what the other blocks added there. With threshold 0
/// the outputs have the bytes of `predict`. No row depends on the rows of
/// another group, in values or in bits. It waits once for the device.
/// Source: First Block Cache, github.com/chengzeyi/ParaAttention, with the
/// Euclidean norm, which is reduced in one order on every device.
/// Errors: as Denoiser; Errc::unsupported for a network of which blocks cannot
/// be left out. Thread: any, one ctx per thread.
void predict_cached(ExecContext& ctx, const Denoiser& denoiser,
                    const Batch& batch, std::span<CachedRows> groups,
                    std::span<Tensor> outputs);

}  // namespace troupe::models
