#pragma once

#include <cstdint>
#include <span>

#include "kernels/core/shard_context.h"

namespace troupe::kernels {

/// The rows of an item (the tokens of one stream) may be divided among devices.
/// Rows [a, b) alone have the bytes that they have in the whole item if a is a
/// multiple of kRowBlock, and b is one or the end of the stream.
///
/// kRowBlock is also the height of the row blocks that define the bytes of
/// `linear` and `attention` on the CPU: block i begins at row i · kRowBlock.
/// Taller products are used only where a check has shown the same bytes.
inline constexpr std::int64_t kRowBlock = 64;

/// Rank `rank`'s rows of an item of so many, if ranks have these shares, which
/// sum up to 1: whole blocks of kRowBlock rows, but for the last of the item.
[[nodiscard]] RowRange rows_by_shares(std::span<const double> shares, int rank,
                                      std::int64_t rows);

/// The sizes of the whole item, for operands that are a shard of it; 0: they
/// are the whole. A GPU's library picks its algorithm by the sizes of a
/// product, so a shard is computed with the algorithm of the whole, or refused.
/// The CPU ignores this.
struct WholeItem {
  std::int64_t rows = 0;  ///< of x, or of q in attention
  /// For attention only: the number of heads of the whole, and the width of the
  /// tensors that hold its q, k and v (one tensor for the three, or three of
  /// this width). A GPU needs both numbers for every shard.
  std::int64_t num_heads = 0;
  std::int64_t row_width = 0;
  /// Of the tensors that hold its k and v, where they are wider or narrower
  /// than that of q; 0: row_width.
  std::int64_t key_width = 0;
};

}  // namespace troupe::kernels
