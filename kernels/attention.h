#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/row_blocks.h"

namespace troupe::kernels {

/// The most memory that a call on the CPU takes beside its operands. Each
/// thread copies the k and v of a head; where the copies of all threads would
/// exceed the limit, threads share copies. One head's k and v and one block's
/// logits are always taken, also where they alone are larger.
inline constexpr std::size_t kMostAttentionBytes = std::size_t{192} << 20U;

/// The heads of an operand inside a wider matrix: element (b, n, h, d) is
/// `base[b, n, column + h * head_dim + d]`. So attention can read q, k and v
/// from the output of one fused projection.
struct HeadsView {
  Tensor base;              ///< [B, N, W]
  std::int64_t column = 0;  ///< first column of head 0
};

/// What changes attention beside its operands.
/// A caller that records work (ExecContext::replay) puts all of it into its
/// key: `scale`, `causal`, every length, which tensor `bias` is, and
/// `key_blocks`.
struct AttentionMask {
  /// Factor of the products, above 0; unset: 1/√head_dim. T5 has 1.
  std::optional<float> scale;
  /// Query i sees keys 0…i alone (needs Nq == Nk, so all rows of the item).
  bool causal = false;
  /// Keys of each item that count, the rest is padding; empty: all. Each 1…Nk.
  /// Host memory, read before the call returns.
  std::span<const std::int64_t> key_lengths;
  /// Added to the scaled logits, the same for every item: [heads, Nq, Nk] f32,
  /// or empty. Finite. Heads and rows as of q: a shard passes its own heads and
  /// rows, with all keys.
  Tensor bias;
  /// Keys are cut into so many blocks (`key_block` in row_blocks.h). Attention
  /// to each of them is computed alone, and merged in f32 in their order: close
  /// to attention to all keys, but other bits. Without causal, lengths and
  /// bias; the CPU alone.
  std::int64_t key_blocks = 1;
};

/// out = softmax(scale · q·kᵀ + bias) · v over the keys that `mask` leaves, for
/// every item and head. Without a mask: softmax(q·kᵀ / √head_dim) · v.
///
/// Shapes: q [B, Nq, heads·head_dim], k and v [B, Nk, …] as views; out
///         [B, Nq, heads·head_dim]. dtype f32 or bf16 (on a GPU also f16), the
///         same for all; logits and softmax are f32.
/// Bits:   an item's bits depend on neither the batch nor its padding: with n
///         keys that count they are those of the first n keys alone. CPU: two
///         products per (item, head, block of query rows); see row_blocks.h.
///         GPU: see DeviceOptions::batch_invariant.
/// Padding: may hold anything, NaN too. Keys that `causal` hides have a weight
///         of 0; their values must be finite.
/// Shards: q may hold some of the rows of larger items, and all operands some
///         of their heads (`whole`). k and v have all keys, in the whole's
///         order.
/// Memory: CPU: per thread a copy of one head's k and v, and the logits of one
///         block (256 query rows, down to 64 as the keys grow). Where that is
///         more than kMostAttentionBytes, threads share copies, in the
///         workspace. GPU: none with flash attention. For f32, for a bias or
///         `causal`, or where head_dim, a column or a row width is no multiple
///         of 8: workspace for the logits of one block of rows (at most 64 MiB,
///         or one row).
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, numbers of the
///         mask); Errc::unsupported on a GPU for key_blocks, for some rows with
///         a bias, where flash attention computes a shard with other bits, and
///         without flash attention for some of the heads, or for rows of
///         another width than the whole's.
/// Speed:  the first call with a number of keys compiles its products: on the
///         CPU some milliseconds, on a GPU with flash attention a second or so.
/// Thread: any, one ctx per thread.
/// Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1. The merge of blocks:
///         Liu et al. 2023, arXiv:2310.01889 (Ring Attention).
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, Tensor& out, const WholeItem& whole = {},
               const AttentionMask& mask = {});

/// The same into heads of a wider matrix, for a shard of the heads.
/// Shapes: out [B, Nq, W] as a view.
void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, HeadsView out,
               const WholeItem& whole = {}, const AttentionMask& mask = {});

/// Query rows of one call where a GPU has no flash attention: the whole's rows
/// in equal blocks, each with at most 64 MiB of logits.
[[nodiscard]] std::int64_t product_rows(std::int64_t num_heads,
                                        std::int64_t keys, std::int64_t rows);

/// Bytes that one CPU thread takes in an attention call with its own copies of
/// k and v, without the library's scratch memory. keys ≥ 1.
[[nodiscard]] std::size_t attention_thread_bytes(std::int64_t keys,
                                                 std::int64_t head_dim,
                                                 DType dtype,
                                                 std::int64_t key_blocks = 1);

}  // namespace troupe::kernels
