#include "models/network/pass.h"

#include <utility>

#include "kernels/copy.h"

namespace troupe::models {

Pass::Pass(ExecContext& ctx, const Network& network, const Shape& latent_shape,
           std::vector<const Prepared*> prepared, Tensor modulation, int begin,
           int end)
    : ctx_(ctx),
      network_(network),
      latent_shape_(latent_shape),
      prepared_(std::move(prepared)),
      modulation_(std::move(modulation)),
      begin_(begin) {
  std::int64_t column = 0;
  for (int stage = begin; stage < end; ++stage) {
    first_columns_.push_back(column);
    column += network.columns(stage);
  }
  const std::int64_t elements =
      network.hidden_elements(latent_shape, begin, end);
  if (elements > 0) {
    hidden_.emplace(workspace(), rows() * elements, compute());
  }
}

Columns Pass::mod(int stage, std::int64_t width) const {
  return {first_columns_[static_cast<std::size_t>(stage - begin_)], width};
}

void Pass::open_residuals(const State& state) {
  const std::vector<StreamKind>& kinds = network_.layout().streams;
  residuals_.resize(kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].is_residual) {
      residuals_[i].emplace(ctx_, state.streams[i].x, modulation_);
    }
  }
}

void Pass::settle() {
  for (auto& residual : residuals_) {
    if (residual) {
      residual->settle(ctx_);
    }
  }
}

namespace {

/// The streams' rows of one operand, one stream behind the other: [B, N, C].
Tensor joined(Pass& pass, std::span<const AttentionStream> streams,
              kernels::HeadsView AttentionStream::*operand,
              std::int64_t width) {
  std::int64_t tokens = 0;
  for (const AttentionStream& stream : streams) {
    tokens += (stream.*operand).base.dim(1);
  }
  const Tensor& first = (streams[0].*operand).base;
  Tensor all = pass.take({first.dim(0), tokens, width}, first.dtype());
  std::int64_t at = 0;
  for (const AttentionStream& stream : streams) {
    const kernels::HeadsView& view = stream.*operand;
    for (std::int64_t row = 0; row < all.dim(0); ++row) {
      // Rows [N, W] of which `width` columns are wanted.
      const Tensor from = view.base.item(row);
      const Tensor to = all.item(row).slice(at, at + from.dim(0));
      std::vector<Tensor> source;
      std::vector<Tensor> target;
      for (std::int64_t token = 0; token < from.dim(0); ++token) {
        source.push_back(
            from.item(token).slice(view.column, view.column + width));
        target.push_back(to.item(token));
      }
      Tensor block = to;
      kernels::gather(pass.ctx(), source, block);
    }
    at += view.base.dim(1);
  }
  return all;
}

}  // namespace

void Pass::attend(std::span<const AttentionStream> streams,
                  std::int64_t num_heads, std::int64_t head_dim,
                  std::span<Tensor> outs) {
  if (streams.size() == 1) {
    const AttentionStream& only = streams[0];
    return kernels::attention(ctx_, only.q, only.k, only.v, num_heads, head_dim,
                              outs[0]);
  }
  const Workspace::Scope scope(workspace());
  const std::int64_t width = num_heads * head_dim;
  const Tensor keys = joined(*this, streams, &AttentionStream::k, width);
  const Tensor values = joined(*this, streams, &AttentionStream::v, width);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    kernels::attention(ctx_, streams[i].q, {keys, 0}, {values, 0}, num_heads,
                       head_dim, outs[i]);
  }
}

void Pass::attend_prompt(const Tensor& q, std::size_t index,
                         std::int64_t num_heads, std::int64_t head_dim,
                         Tensor& out) {
  // A call with one row has the same bits in every batch.
  for (std::int64_t i = 0; i < q.dim(0); ++i) {
    const Tensor& key_values =
        prepared_[static_cast<std::size_t>(i)]->prompt[index];
    Tensor row = out.slice(i, i + 1);
    kernels::attention(ctx_, {q.slice(i, i + 1), 0}, {key_values, 0},
                       {key_values, num_heads * head_dim}, num_heads, head_dim,
                       row);  // [1, N, C]
  }
}

}  // namespace troupe::models
