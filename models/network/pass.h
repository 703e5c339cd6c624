#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"
#include "kernels/residual_stream.h"
#include "kernels/row_blocks.h"
#include "models/layers/ping_pong.h"
#include "models/network/image_pass.h"
#include "models/network/network.h"

namespace troupe::models {

/// Columns of a modulation, in parts of one width: shift, scale and gate of a
/// norm and its branch, one behind the other.
struct Columns {
  std::int64_t first = 0;
  std::int64_t width = 0;

  /// Where part k begins.
  [[nodiscard]] std::int64_t at(int k) const { return first + k * width; }
};

/// Queries, keys and values of one stream: [B, N, heads · head_dim] as views.
struct AttentionStream {
  kernels::HeadsView q, k, v;
};

/// One run through consecutive stages for rows that are computed together: what
/// a stage may use. Where several ranks compute it, a stage has this rank's
/// tokens of every stream, and is written as if they were all. Memory comes
/// from the workspace and ends with the driver's scope. Thread: that of the
/// context.
class Pass {
 public:
  /// For stages from `begin` to `end`. `ring_blocks`: as in Batch; `prepared`:
  /// of each row; `modulation`: of these stages. With several ranks there is
  /// one row.
  Pass(ExecContext& ctx, ShardContext& shard, const Network& network,
       const Shape& latent_shape, std::int64_t ring_blocks,
       std::vector<const Prepared*> prepared, Tensor modulation, int begin,
       int end);

  [[nodiscard]] ExecContext& ctx() noexcept { return ctx_; }
  [[nodiscard]] Workspace& workspace() noexcept { return ctx_.workspace(); }
  [[nodiscard]] DType compute() const noexcept { return network_.compute(); }
  [[nodiscard]] std::int64_t rows() const noexcept {
    return static_cast<std::int64_t>(prepared_.size());
  }
  /// [C, H, W] of a row.
  [[nodiscard]] const Shape& latent_shape() const noexcept {
    return latent_shape_;
  }
  /// What row i's condition left.
  [[nodiscard]] const Prepared& prepared(std::int64_t i) const {
    return *prepared_[static_cast<std::size_t>(i)];
  }
  /// Workspace memory, in the compute type unless `dtype` says otherwise.
  [[nodiscard]] Tensor take(const Shape& shape) {
    return take(shape, compute());
  }
  [[nodiscard]] Tensor take(const Shape& shape, DType dtype) {
    return workspace().take(shape, dtype);
  }

  /// [B, C, H, W] f32, which the first stage reads.
  Tensor latents;
  /// [B, out channels, H, W] f32, which the last stage writes. Empty on ranks
  /// that write none.
  Tensor output;

  /// This rank's tokens of `all` [B, N, …] or, for `own_rows`, of `all` [N, …].
  [[nodiscard]] Tensor own(const Tensor& all) const;
  [[nodiscard]] Tensor own_rows(const Tensor& all) const;
  /// The whole that a product over this rank's tokens belongs to (WholeItem).
  /// Empty for one rank, and on a CPU.
  [[nodiscard]] kernels::WholeItem whole_of(std::int64_t tokens) const;
  /// The same for a stream of the state.
  [[nodiscard]] kernels::WholeItem whole(std::size_t stream = 0) const {
    return whole_of(is_divided() ? tokens_[stream] : 0);
  }
  /// Memory [B, n, width] for this rank's tokens of a stream of N tokens that
  /// `gather` shows whole.
  [[nodiscard]] Tensor take_shared(std::int64_t tokens, std::int64_t width,
                                   DType dtype);
  /// All tokens [B, N, width] of what `take_shared` gave, once every rank has
  /// written its own. To be read before the next `attend` or `gather`. Ranks
  /// without an `output` get an empty tensor.
  [[nodiscard]] Tensor gather(const Tensor& own);
  /// Memory [B, n, 3 · num_heads · head_dim] for queries, keys and values of
  /// this rank's tokens of each of these streams of the state, in the order in
  /// which `attend` gets them. Not to be written again behind that `attend`.
  [[nodiscard]] std::vector<Tensor> take_attended(
      std::initializer_list<std::size_t> streams, std::int64_t num_heads,
      std::int64_t head_dim);
  /// The same for a network of one stream, with tokens x [B, n, …].
  [[nodiscard]] Tensor take_attended(const Tensor& x, std::int64_t num_heads,
                                     std::int64_t head_dim);

  /// [B, W] f32.
  [[nodiscard]] const Tensor& modulation() const noexcept {
    return modulation_;
  }
  /// The columns of a stage there, in parts of `width`.
  [[nodiscard]] Columns mod(int stage, std::int64_t width) const;
  /// A residual stream of the state.
  [[nodiscard]] kernels::ResidualStream& residual(std::size_t stream = 0) {
    return *residuals_[stream];
  }
  /// Two buffers of `Network::hidden_elements` for each row.
  [[nodiscard]] PingPong& hidden() noexcept { return *hidden_; }

  /// The only attention of a network over its tokens. The queries of every
  /// stream attend to the keys of all streams, in the order of `streams`. Keys
  /// and values lie in memory of `take_attended`. The keys of all streams are
  /// cut into Batch::ring_blocks blocks.
  /// outs: [B, N of the stream, heads · head_dim].
  void attend(std::span<const AttentionStream> streams, std::int64_t num_heads,
              std::int64_t head_dim, std::span<Tensor> outs);
  /// The same for one stream.
  void attend(const AttentionStream& stream, std::int64_t num_heads,
              std::int64_t head_dim, Tensor& out) {
    attend(std::span(&stream, 1), num_heads, head_dim, std::span(&out, 1));
  }
  /// Attention of queries [B, N, C] to prompt[index] of each row's
  /// condition. Each row has keys of its own number, so padding of a prompt
  /// changes no bit.
  void attend_prompt(const Tensor& q, std::size_t index, std::int64_t num_heads,
                     std::int64_t head_dim, Tensor& out);

  /// Layers over this rank's pixels of images, for Sharding::pixels.
  [[nodiscard]] ImagePass& image() noexcept { return image_; }
  /// The stream of an image network has so many pixels here: to be called
  /// before `take_attended`.
  void set_tokens(std::int64_t tokens) { tokens_ = {tokens}; }

  /// Progress inside a long stage; honours a stop. Errors: Errc::interrupted.
  void tick() { ctx_.tick(0); }

  /// Begins the residual streams, behind the stage that embeds. tokens: of each
  /// stream on all ranks; empty: there is one rank.
  void open(const State& state, std::vector<std::int64_t> tokens);
  /// After it the state's streams hold every addition.
  void settle();

 private:
  [[nodiscard]] bool is_divided() const { return shard_.world_size() > 1; }
  /// Whether each rank has some of the keys.
  [[nodiscard]] bool divides_keys() const;
  /// Memory that all ranks share, and the tokens of each stream there.
  struct Shared {
    Tensor all;
    std::vector<std::int64_t> tokens;
  };
  /// Takes memory [1, tokens of these streams, 3 · num_heads · head_dim] for
  /// all ranks.
  const Tensor& share_attended(std::vector<std::int64_t> streams,
                               std::int64_t num_heads, std::int64_t head_dim);
  /// Whether each rank attends with some of so many heads.
  [[nodiscard]] bool divides_heads(std::int64_t num_heads) const;
  [[nodiscard]] RowRange heads_of(int rank, std::int64_t num_heads) const;
  /// What attention of a stream of `attended` is part of, with rows of so many
  /// columns of all heads.
  [[nodiscard]] kernels::WholeItem whole_attended(const Shared& attended,
                                                  std::size_t index,
                                                  const AttentionStream& stream,
                                                  std::int64_t width) const;
  /// The two plans, once what is attended to is there.
  void attend_to_all(const Shared& attended,
                     std::span<const AttentionStream> streams,
                     std::int64_t num_heads, std::int64_t head_dim,
                     std::span<Tensor> outs);
  void attend_by_heads(const Shared& attended,
                       std::span<const AttentionStream> streams,
                       std::int64_t num_heads, std::int64_t head_dim,
                       std::span<Tensor> outs);
  /// What a view of this rank's tokens lies in.
  [[nodiscard]] const Shared& shared(const Tensor& own) const;

  ExecContext& ctx_;
  ShardContext& shard_;
  ImagePass image_;
  const Network& network_;
  const Shape& latent_shape_;
  kernels::AttentionMask mask_;  ///< of attention over tokens
  std::vector<const Prepared*> prepared_;
  Tensor modulation_;
  std::vector<std::int64_t> first_columns_;  ///< of each stage from begin_
  int begin_;
  std::vector<std::optional<kernels::ResidualStream>> residuals_;
  std::vector<std::int64_t> tokens_;  ///< of each stream, on all ranks
  std::vector<Shared> shared_;        ///< taken since the ranks last met
  std::optional<PingPong> hidden_;
};

}  // namespace troupe::models
