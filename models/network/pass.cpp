#include "models/network/pass.h"

#include <numeric>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/error.h"

namespace troupe::models {

Pass::Pass(ExecContext& ctx, ShardContext& shard, const Network& network,
           const Shape& latent_shape, std::vector<const Prepared*> prepared,
           Tensor modulation, int begin, int end)
    : ctx_(ctx),
      shard_(shard),
      image_(ctx, shard),
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

bool Pass::divides_keys() const {
  return network_.layout().sharding == Sharding::pixels
             ? ImagePass::divides(shard_, tokens_[0])
             : is_divided();
}

Tensor Pass::own_rows(const Tensor& all) const {
  if (!is_divided()) {
    return all;
  }
  const RowRange rows = shard_.own(all.dim(0));
  return all.slice(rows.begin, rows.end);
}

Tensor Pass::own(const Tensor& all) const {
  if (!is_divided()) {
    return all;
  }
  const Tensor rows = own_rows(all.item(0));
  return rows.reshape(with_rows(1, rows.shape()));
}

Tensor Pass::take_shared(std::int64_t tokens, std::int64_t width, DType dtype) {
  if (!is_divided()) {
    return take({rows(), tokens, width}, dtype);
  }
  const auto of_rank = [&](int rank) {
    return SharedBlocks{.written = {{shard_.rows_of(rank, tokens), {0, width}}},
                        .read = {{{0, rank == 0 ? tokens : 0}, {0, width}}}};
  };
  const Tensor all = shard_.share({tokens, width}, dtype, of_rank);
  shared_.push_back({all.reshape({1, tokens, width}), {tokens}});
  return own(shared_.back().all);
}

kernels::WholeItem Pass::whole_of(std::int64_t tokens) const {
  if (!is_divided() || ctx_.kind() == DeviceKind::cpu) {
    return {};
  }
  return {.rows = tokens};
}

bool Pass::divides_heads(std::int64_t num_heads) const {
  return shard_.plan() == AttentionPlan::ulysses &&
         num_heads >= shard_.world_size();
}

RowRange Pass::heads_of(int rank, std::int64_t num_heads) const {
  const RowRange rows = shard_.rows_of(rank, num_heads * kernels::kRowBlock);
  return {rows.begin / kernels::kRowBlock, rows.end / kernels::kRowBlock};
}

const Tensor& Pass::share_attended(std::vector<std::int64_t> streams,
                                   std::int64_t num_heads,
                                   std::int64_t head_dim) {
  const std::int64_t width = num_heads * head_dim;
  const std::int64_t sum =
      std::accumulate(streams.begin(), streams.end(), std::int64_t{0});
  const auto of_rank = [&](int rank) {
    SharedBlocks blocks;
    std::int64_t begin = 0;
    for (const std::int64_t tokens : streams) {
      const RowRange its = shard_.rows_of(rank, tokens);
      blocks.written.push_back(
          {{begin + its.begin, begin + its.end}, {0, 3 * width}});
      begin += tokens;
    }
    if (!divides_heads(num_heads)) {
      blocks.read = {{{0, sum}, {width, 3 * width}}};  // keys and values
      return blocks;
    }
    const RowRange heads = heads_of(rank, num_heads);
    for (int part = 0; part < 3; ++part) {
      blocks.read.push_back({{0, sum},
                             {part * width + heads.begin * head_dim,
                              part * width + heads.end * head_dim}});
    }
    return blocks;
  };
  const Tensor all = shard_.share({sum, 3 * width}, compute(), of_rank);
  shared_.push_back({all.reshape({1, sum, 3 * width}), std::move(streams)});
  return shared_.back().all;
}

const Pass::Shared& Pass::shared(const Tensor& own) const {
  const std::byte* const first = own.bytes().data();
  for (const Shared& one : shared_) {
    const std::byte* const begin = one.all.bytes().data();
    // A rank without tokens has an empty view, perhaps at the end.
    const std::byte* const end = begin + one.all.num_bytes();
    if (begin <= first && (own.empty() ? first <= end : first < end)) {
      return one;
    }
  }
  throw Error(Errc::internal, network_.layout().place,
              "ranks share no memory of what all of them read");
}

Tensor Pass::gather(const Tensor& own) {
  if (!is_divided()) {
    return own;
  }
  const Tensor all = shared(own).all;
  shard_.meet();
  shared_.clear();
  return output.empty() ? Tensor() : all;
}

std::vector<Tensor> Pass::take_attended(
    std::initializer_list<std::size_t> streams, std::int64_t num_heads,
    std::int64_t head_dim) {
  std::vector<Tensor> parts;
  if (!is_divided()) {
    for (const std::size_t stream : streams) {
      parts.push_back(
          take({rows(), tokens_[stream], 3 * num_heads * head_dim}));
    }
    return parts;
  }
  // One stream behind the other, as `attend` reads them.
  std::vector<std::int64_t> tokens;
  for (const std::size_t stream : streams) {
    tokens.push_back(tokens_[stream]);
  }
  const Tensor all = share_attended(tokens, num_heads, head_dim).item(0);
  std::int64_t begin = 0;
  for (const std::size_t stream : streams) {
    const std::int64_t end = begin + tokens_[stream];
    const Tensor rows = own_rows(all.slice(begin, end));
    parts.push_back(rows.reshape(with_rows(1, rows.shape())));
    begin = end;
  }
  return parts;
}

Tensor Pass::take_attended(const Tensor& x, std::int64_t num_heads,
                           std::int64_t head_dim) {
  return divides_keys() ? take_attended({0}, num_heads, head_dim)[0]
                        : take({x.dim(0), x.dim(1), 3 * num_heads * head_dim});
}

void Pass::open(const State& state, std::vector<std::int64_t> tokens) {
  tokens_ = std::move(tokens);
  if (tokens_.empty()) {
    for (const Stream& stream : state.streams) {
      tokens_.push_back(stream.x.dim(1));
    }
  }
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

void Pass::attend_to_all(const Shared& attended,
                         std::span<const AttentionStream> streams,
                         std::int64_t num_heads, std::int64_t head_dim,
                         std::span<Tensor> outs) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    kernels::WholeItem whole = whole_of(attended.tokens[i]);
    whole.row_width = streams[i].q.base.dim(2);
    // Of one rank, `joined` makes keys and values of several streams.
    whole.key_width =
        streams.size() == 1 ? attended.all.dim(2) : num_heads * head_dim;
    kernels::attention(ctx_, streams[i].q, {attended.all, streams[i].k.column},
                       {attended.all, streams[i].v.column}, num_heads, head_dim,
                       outs[i], whole);
  }
}

void Pass::attend_by_heads(const Shared& attended,
                           std::span<const AttentionStream> streams,
                           std::int64_t num_heads, std::int64_t head_dim,
                           std::span<Tensor> outs) {
  const std::int64_t width = num_heads * head_dim;
  const std::int64_t sum = attended.all.dim(1);
  const auto columns_of = [&](int rank) {
    const RowRange heads = heads_of(rank, num_heads);
    return RowRange{heads.begin * head_dim, heads.end * head_dim};
  };
  const auto of_rank = [&](int rank) {
    SharedBlocks blocks{.written = {{{0, sum}, columns_of(rank)}}, .read = {}};
    std::int64_t begin = 0;
    for (const std::int64_t tokens : attended.tokens) {
      const RowRange its = shard_.rows_of(rank, tokens);
      blocks.read.push_back({{begin + its.begin, begin + its.end}, {0, width}});
      begin += tokens;
    }
    return blocks;
  };
  const Tensor made = shard_.share({sum, width}, compute(), of_rank);
  const RowRange mine = columns_of(shard_.rank());
  const auto rows_of_stream = [&](const Tensor& rows, std::size_t stream) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < stream; ++i) {
      begin += attended.tokens[i];
    }
    const Tensor its = rows.slice(begin, begin + attended.tokens[stream]);
    return its.reshape(with_rows(1, its.shape()));
  };
  for (std::size_t i = 0; i < streams.size() && mine.size() > 0; ++i) {
    const AttentionStream& stream = streams[i];
    kernels::attention(
        ctx_,
        {rows_of_stream(attended.all.item(0), i), stream.q.column + mine.begin},
        {attended.all, stream.k.column + mine.begin},
        {attended.all, stream.v.column + mine.begin}, mine.size() / head_dim,
        head_dim, kernels::HeadsView{rows_of_stream(made, i), mine.begin});
  }
  shard_.meet();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const Tensor own = own_rows(rows_of_stream(made, i).item(0));
    if (!own.empty()) {
      kernels::copy(ctx_, own.reshape(outs[i].shape()), outs[i]);
    }
  }
}

void Pass::attend(std::span<const AttentionStream> streams,
                  std::int64_t num_heads, std::int64_t head_dim,
                  std::span<Tensor> outs) {
  if (divides_keys()) {
    const Shared attended = shared(streams[0].k.base);
    shard_.meet();
    shared_.clear();
    return divides_heads(num_heads)
               ? attend_by_heads(attended, streams, num_heads, head_dim, outs)
               : attend_to_all(attended, streams, num_heads, head_dim, outs);
  }
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
  kernels::WholeItem whole = this->whole();
  whole.row_width = q.dim(2);
  // A call with one row has the same bits in every batch.
  for (std::int64_t i = 0; i < q.dim(0); ++i) {
    const Tensor& key_values =
        prepared_[static_cast<std::size_t>(i)]->prompt[index];
    whole.key_width = key_values.dim(2);
    Tensor row = out.slice(i, i + 1);
    kernels::attention(ctx_, {q.slice(i, i + 1), 0}, {key_values, 0},
                       {key_values, num_heads * head_dim}, num_heads, head_dim,
                       row, whole);  // [1, N, C]
  }
}

}  // namespace troupe::models
