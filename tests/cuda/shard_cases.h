#pragma once

#include <cstring>
#include <vector>

#include "kernels/attention.h"
#include "tests/cuda/linear_cases.h"
#include "tests/kernels/row_ranges.h"

namespace troupe::kernels {

/// Rows [begin, end) of the items of a host tensor [B, N, W].
inline Tensor rows_of(const Tensor& x, const RowRange& range) {
  Tensor rows({x.dim(0), range.end - range.begin, x.dim(2)}, x.dtype());
  for (std::int64_t item = 0; item < x.dim(0); ++item) {
    const Tensor from = x.item(item).slice(range.begin, range.end);
    std::memcpy(rows.item(item).bytes().data(), from.bytes().data(),
                from.num_bytes());
  }
  return rows;
}

/// Two items of a linear layer, and what they give as a whole.
class LinearShards {
 public:
  LinearShards(ExecContext& ctx, std::int64_t rows, std::int64_t n,
               std::int64_t k, DType compute)
      : values_({2, rows, k}, n, compute, 5), packed_(values_.packed(ctx)) {
    for (const auto activation : kActivations) {
      whole_.push_back(
          run_linear(ctx, values_.x, packed_, activation, compute));
    }
  }

  [[nodiscard]] std::vector<RowRange> ranges() const {
    return row_ranges(values_.x.dim(1));
  }
  /// Errors: as `linear`.
  void expect_same(ExecContext& ctx, const RowRange& range) const {
    const Tensor x = upload(ctx, rows_of(values_.x, range));
    for (std::size_t i = 0; i < whole_.size(); ++i) {
      Tensor out = poisoned(ctx, {2, x.dim(1), packed_.out_features()},
                            whole_[i].dtype());
      linear(ctx, x, packed_, kActivations[i], out, {.rows = values_.x.dim(1)});
      EXPECT_TRUE(bytes_equal(download(ctx, out), rows_of(whole_[i], range)))
          << "rows " << range.begin << " to " << range.end;
    }
  }

 private:
  // With the library's epilogue, and with ours.
  static constexpr Activation kActivations[] = {Activation::gelu_tanh,
                                                Activation::silu};
  LinearCase values_;
  PackedLinear packed_;
  std::vector<Tensor> whole_;
};

struct AttentionPart {
  RowRange rows;
  std::int64_t first_head;
  std::int64_t num_heads;
};

/// Two items whose q, k and v lie in one fused tensor, and what they give as a
/// whole.
class AttentionShards {
 public:
  AttentionShards(ExecContext& ctx, std::int64_t tokens, std::int64_t num_heads,
                  std::int64_t head_dim, DType dtype)
      : num_heads_(num_heads),
        head_dim_(head_dim),
        qkv_(random({2, tokens, 3 * num_heads * head_dim}, dtype, 3)) {
    const std::int64_t width = num_heads * head_dim;
    const Tensor x = upload(ctx, qkv_);
    Tensor out = poisoned(ctx, {2, tokens, width}, dtype);
    attention(ctx, {x, 0}, {x, width}, {x, 2 * width}, num_heads, head_dim,
              out);
    whole_ = download(ctx, out);
  }

  /// Some queries and all heads; all queries and some heads.
  [[nodiscard]] std::vector<AttentionPart> parts() const {
    std::vector<AttentionPart> parts;
    const RowRange all{0, qkv_.dim(1)};
    for (const RowRange& rows : row_ranges(all.end)) {
      parts.push_back({rows, 0, num_heads_});
    }
    parts.push_back({all, 0, 1});
    parts.push_back({all, 1, 2});
    parts.push_back({all, num_heads_ - 1, 1});
    return parts;
  }
  /// Errors: as `attention`.
  void expect_same(ExecContext& ctx, const AttentionPart& part) const {
    const RowRange all{0, qkv_.dim(1)};
    const Tensor q = upload(ctx, operand(0, part, part.rows));
    const Tensor k = upload(ctx, operand(1, part, all));
    const Tensor v = upload(ctx, operand(2, part, all));
    Tensor out = poisoned(ctx, q.shape(), q.dtype());
    const WholeItem item{.rows = all.end,
                         .first_row = part.rows.begin,
                         .num_heads = num_heads_,
                         .row_width = qkv_.dim(2)};
    attention(ctx, {q, 0}, {k, 0}, {v, 0}, part.num_heads, head_dim_, out,
              item);
    const Tensor want =
        columns_of(rows_of(whole_, part.rows), part.first_head, part.num_heads);
    const auto where = [&] {
      return "rows " + std::to_string(part.rows.begin) + " to " +
             std::to_string(part.rows.end) + ", heads " +
             std::to_string(part.first_head) + " + " +
             std::to_string(part.num_heads);
    };
    EXPECT_TRUE(bytes_equal(download(ctx, out), want)) << where();
    // Into heads of a wider matrix, whose other columns stay.
    for (const std::int64_t shift : {0, 3}) {
      const std::int64_t row = (num_heads_ + 1) * head_dim_;
      const Tensor room =
          poisoned(ctx, {q.dim(0) * q.dim(1) * row + shift}, q.dtype());
      const Tensor wide =
          room.slice(shift, room.dim(0)).reshape({q.dim(0), q.dim(1), row});
      const std::int64_t column = part.first_head * head_dim_;
      attention(ctx, {q, 0}, {k, 0}, {v, 0}, part.num_heads, head_dim_,
                HeadsView{wide, column}, item);
      const Tensor got = download(ctx, wide);
      EXPECT_TRUE(
          bytes_equal(columns_of(got, part.first_head, part.num_heads), want))
          << where() << ", " << shift;
      Tensor untouched = poisoned(ctx, wide.shape(), q.dtype());
      untouched = untouched.reshape({q.dim(0) * q.dim(1), row});
      copy_columns(ctx, out.reshape({q.dim(0) * q.dim(1), out.dim(2)}), 0,
                   untouched, column, out.dim(2));
      expect_same_bits(got, download(ctx, untouched).reshape(got.shape()));
    }
  }

 private:
  [[nodiscard]] Tensor columns_of(const Tensor& x, std::int64_t first_head,
                                  std::int64_t num_heads) const {
    const std::size_t size = size_of(x.dtype());
    Tensor out({x.dim(0), x.dim(1), num_heads * head_dim_}, x.dtype());
    const std::int64_t rows = x.dim(0) * x.dim(1);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(
          out.bytes().data() +
              static_cast<std::size_t>(row * out.dim(2)) * size,
          x.bytes().data() + static_cast<std::size_t>(row * x.dim(2) +
                                                      first_head * head_dim_) *
                                 size,
          static_cast<std::size_t>(out.dim(2)) * size);
    }
    return out;
  }
  /// q, k or v, dense, as a rank has it that gathered it.
  [[nodiscard]] Tensor operand(std::int64_t index, const AttentionPart& part,
                               const RowRange& rows) const {
    return columns_of(rows_of(qkv_, rows), index * num_heads_ + part.first_head,
                      part.num_heads);
  }

  std::int64_t num_heads_;
  std::int64_t head_dim_;
  Tensor qkv_;
  Tensor whole_;
};

/// Rows of q, k and v side by side, and attention to them.
struct FusedAttention {
  std::int64_t heads;
  std::int64_t head_dim;
  Tensor x;      ///< [1, tokens, 3 · heads · head_dim]
  Tensor whole;  ///< on the host

  FusedAttention(ExecContext& ctx, std::int64_t tokens, std::int64_t num_heads,
                 std::int64_t dim, DType dtype)
      : heads(num_heads),
        head_dim(dim),
        x(upload(ctx, random({1, tokens, 3 * num_heads * dim}, dtype, 4))) {
    const Tensor out = attend(ctx, x, heads, {});
    whole = download(ctx, out);
  }
  [[nodiscard]] Tensor attend(ExecContext& ctx, const Tensor& q,
                              std::int64_t num_heads,
                              const WholeItem& item) const {
    const std::int64_t width = heads * head_dim;
    Tensor out = poisoned(ctx, {1, q.dim(1), num_heads * head_dim}, x.dtype());
    attention(ctx, {q, 0}, {x, width}, {x, 2 * width}, num_heads, head_dim, out,
              item);
    return out;
  }
  void expect_same(ExecContext& ctx, RowRange rows) const {
    const Tensor own = x.item(0).slice(rows.begin, rows.end);
    const Tensor part = attend(
        ctx, own.reshape({1, own.dim(0), own.dim(1)}), heads,
        {.rows = x.dim(1), .first_row = rows.begin, .row_width = x.dim(2)});
    EXPECT_TRUE(bytes_equal(download(ctx, part).item(0),
                            whole.item(0).slice(rows.begin, rows.end)))
        << rows.begin << " to " << rows.end;
  }
};

}  // namespace troupe::kernels
