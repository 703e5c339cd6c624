#pragma once

#include <cstdint>

namespace troupe::kernels {

/// The rows of an item (the tokens of one stream) may be shared out between
/// devices. A shard [a, b) has the bytes that these rows have in the whole item
/// when a and b are multiples of this, or b is the end of the stream.
///
/// It is also the height of the row blocks that define the bytes of `linear`
/// and `attention` on the CPU: block i covers the rows from i · kRowBlock on.
/// Taller products are used only where a check has shown the same bytes.
inline constexpr std::int64_t kRowBlock = 64;

/// What the operands of an op are a shard of; 0: they are the whole. A GPU's
/// library picks its algorithm by the sizes of a product, so a shard is
/// computed with the algorithm of the whole, or refused. The CPU needs no such
/// help.
struct WholeItem {
  std::int64_t rows = 0;
  /// For attention only: the heads, and the columns of the tensor in which q, k
  /// and v of the whole lie. The three lie in one tensor, or each in its own
  /// tensor of this width. A GPU needs both numbers for every shard.
  std::int64_t num_heads = 0;
  std::int64_t row_width = 0;
};

}  // namespace troupe::kernels
