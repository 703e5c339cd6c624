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

/// Ranks begin at multiples of so many rows of an item of `rows`: `least`,
/// doubled until the item has at most kMostBlocks of them. A GPU's group norm
/// sums pixels in such blocks, too, with a smaller `least`: ranks begin where
/// sums do.
inline constexpr std::int64_t kMostBlocks = 512;
[[nodiscard]] std::int64_t shard_block(std::int64_t rows,
                                       std::int64_t least = kRowBlock);

/// Rank `rank`'s rows of an item of so many, if ranks have these shares, which
/// sum up to 1: whole blocks (shard_block), but for the last of the item.
[[nodiscard]] RowRange rows_by_shares(std::span<const double> shares, int rank,
                                      std::int64_t rows);

/// Block `block` of so many that the keys of an item are cut into, if each has
/// kRowBlock keys or more: whole blocks of kRowBlock rows, as equal as these
/// allow, but for the last of the item. With fewer keys block 0 has them all.
[[nodiscard]] RowRange key_block(std::int64_t blocks, std::int64_t block,
                                 std::int64_t keys);

/// The sizes of the whole item, for operands that are a shard of it; 0: they
/// are the whole. A GPU's library picks its algorithm by the sizes of a
/// product, so a shard is computed with the algorithm of the whole, or refused.
/// The CPU ignores this.
struct WholeItem {
  std::int64_t rows = 0;       ///< of x, or of q in attention
  std::int64_t first_row = 0;  ///< of the shard
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
