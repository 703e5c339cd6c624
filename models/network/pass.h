#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention.h"
#include "kernels/core/context.h"
#include "kernels/residual_stream.h"
#include "models/layers/ping_pong.h"
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
/// a stage may use. Memory comes from the workspace and ends with the driver's
/// scope. Thread: that of the context.
class Pass {
 public:
  /// For stages from `begin` to `end`. `prepared`: of each row; `modulation`:
  /// of these stages.
  Pass(ExecContext& ctx, const Network& network, const Shape& latent_shape,
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
  /// [B, out channels, H, W] f32, which the last stage writes.
  Tensor output;

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
  /// stream attend to the keys of all streams, in the order of `streams`.
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

  /// Progress inside a long stage; honours a stop. Errors: Errc::interrupted.
  void tick() { ctx_.tick(0); }

  /// Begins the residual streams, behind the stage that embeds.
  void open_residuals(const State& state);
  /// After it the state's streams hold every addition.
  void settle();

 private:
  ExecContext& ctx_;
  const Network& network_;
  const Shape& latent_shape_;
  std::vector<const Prepared*> prepared_;
  Tensor modulation_;
  std::vector<std::int64_t> first_columns_;  ///< of each stage from begin_
  int begin_;
  std::vector<std::optional<kernels::ResidualStream>> residuals_;
  std::optional<PingPong> hidden_;
};

}  // namespace troupe::models
