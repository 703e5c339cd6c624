#include "models/network/pass.h"

#include <numeric>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/error.h"

namespace troupe::models {

Pass::Pass(ExecContext& ctx, ShardContext& shard, const Network& network,
           const Shape& latent_shape, std::int64_t ring_blocks,
           std::vector<const Prepared*> prepared, Tensor modulation, int begin,
           int end)
    : ctx_(ctx),
      shard_(shard),
      image_(ctx, shard),
      network_(network),
      latent_shape_(latent_shape),
      mask_{.key_blocks = ring_blocks},
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

namespace {

/// The rows of stream `index` where streams lie one behind the other.
RowRange stream_rows(std::span<const std::int64_t> tokens, std::size_t index) {
  const std::int64_t begin = std::accumulate(
      tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(index),
      std::int64_t{0});
  return {begin, begin + tokens[index]};
}

/// Rows as a batch of one.
Tensor as_batch(const Tensor& rows) {
  return rows.reshape(with_rows(1, rows.shape()));
}

Tensor slice_of(const Tensor& rows, RowRange range) {
  return rows.slice(range.begin, range.end);
}

/// A rank's rows of every stream.
std::vector<SharedBlock> rows_of_streams(const ShardContext& shard, int rank,
                                         std::span<const std::int64_t> tokens,
                                         RowRange columns) {
  std::vector<SharedBlock> blocks;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t begin = stream_rows(tokens, i).begin;
    const RowRange its = shard.rows_of(rank, tokens[i]);
    blocks.push_back({{begin + its.begin, begin + its.end}, columns});
  }
  return blocks;
}

}  // namespace

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
  return slice_of(all, shard_.own(all.dim(0)));
}

Tensor Pass::own(const Tensor& all) const {
  if (!is_divided()) {
    return all;
  }
  return as_batch(own_rows(all.item(0)));
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
  return {.rows = tokens, .first_row = network_.own(shard_, tokens).begin};
}

bool Pass::divides_heads(std::int64_t num_heads) const {
  // In f32 a GPU attends by products, whose algorithm follows from the number
  // of heads.
  return shard_.plan() == AttentionPlan::ulysses &&
         num_heads >= shard_.world_size() &&
         (ctx_.kind() == DeviceKind::cpu || compute() != DType::f32);
}

RowRange Pass::heads_of(int rank, std::int64_t num_heads) const {
  const RowRange rows = shard_.rows_of(rank, num_heads * kernels::kRowBlock);
  return {rows.begin / kernels::kRowBlock, rows.end / kernels::kRowBlock};
}

const Tensor& Pass::share_attended(std::vector<std::int64_t> streams,
                                   std::int64_t num_heads,
                                   std::int64_t head_dim) {
  const std::int64_t width = num_heads * head_dim;
  const std::int64_t sum = stream_rows(streams, streams.size() - 1).end;
  const auto of_rank = [&](int rank) {
    SharedBlocks blocks{
        .written = rows_of_streams(shard_, rank, streams, {0, 3 * width}),
        .read = {}};
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
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    parts.push_back(as_batch(own_rows(slice_of(all, stream_rows(tokens, i)))));
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

kernels::WholeItem Pass::whole_attended(const Shared& attended,
                                        std::size_t index,
                                        const AttentionStream& stream,
                                        std::int64_t width) const {
  kernels::WholeItem whole = whole_of(attended.tokens[index]);
  whole.row_width = stream.q.base.dim(2);
  // Of one rank, `joined` makes keys and values of several streams.
  whole.key_width = attended.tokens.size() == 1 ? attended.all.dim(2) : width;
  return whole;
}

void Pass::attend_to_all(const Shared& attended,
                         std::span<const AttentionStream> streams,
                         std::int64_t num_heads, std::int64_t head_dim,
                         std::span<Tensor> outs) {
  for (std::size_t i = 0; i < streams.size(); ++i) {
    kernels::attention(
        ctx_, streams[i].q, {attended.all, streams[i].k.column},
        {attended.all, streams[i].v.column}, num_heads, head_dim, outs[i],
        whole_attended(attended, i, streams[i], num_heads * head_dim), mask_);
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
    return SharedBlocks{
        .written = {{{0, sum}, columns_of(rank)}},
        .read = rows_of_streams(shard_, rank, attended.tokens, {0, width})};
  };
  const Tensor made = shard_.share({sum, width}, compute(), of_rank);
  const RowRange mine = columns_of(shard_.rank());
  const auto rows_of_stream = [&](const Tensor& rows, std::size_t stream) {
    return as_batch(slice_of(rows, stream_rows(attended.tokens, stream)));
  };
  for (std::size_t i = 0; i < streams.size() && mine.size() > 0; ++i) {
    const AttentionStream& stream = streams[i];
    kernels::WholeItem whole =
        whole_attended(attended, i, stream, num_heads * head_dim);
    whole.first_row = 0;
    whole.num_heads = num_heads;
    kernels::attention(
        ctx_,
        {rows_of_stream(attended.all.item(0), i), stream.q.column + mine.begin},
        {attended.all, stream.k.column + mine.begin},
        {attended.all, stream.v.column + mine.begin}, mine.size() / head_dim,
        head_dim, kernels::HeadsView{rows_of_stream(made, i), mine.begin},
        whole, mask_);
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
                              outs[0], {}, mask_);
  }
  const Workspace::Scope scope(workspace());
  const std::int64_t width = num_heads * head_dim;
  const Tensor keys = joined(*this, streams, &AttentionStream::k, width);
  const Tensor values = joined(*this, streams, &AttentionStream::v, width);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    kernels::attention(ctx_, streams[i].q, {keys, 0}, {values, 0}, num_heads,
                       head_dim, outs[i], {}, mask_);
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
