#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"
#include "kernels/core/tensor.h"
#include "kernels/offload.h"
#include "models/condition.h"
#include "models/network/segment.h"

// What a network is: a list of stages over named streams. Stage 0 embeds the
// latents, stage 1 + i is block i, and the last one makes the output. Around
// them the driver (driver.h) does what is the same for every network.

namespace troupe::models {

class Pass;

/// A tensor that flows from stage to stage: [B, N, D].
struct Stream {
  std::string_view name;
  Tensor x;
};

/// What passes between stages, for rows that are computed together.
struct State {
  std::vector<Stream> streams;
  std::vector<Tensor> skips;  ///< made and not yet taken; the newest is last
};

struct Stage {
  bool makes_skip = false;  ///< adds one to State::skips
  bool takes_skip = false;  ///< removes the newest
};

/// A stream's name, and whether it is the f32 residual stream of adaLN blocks:
/// then stages change it in place, through Pass::residual.
struct StreamKind {
  std::string_view name;
  bool is_residual = false;
};

/// What a network keeps of a condition, for one segment. Immutable once it is
/// prepared. Thread: any.
struct Prepared final : public PreparedCondition {
  std::string_view place;  ///< NetworkLayout::place of who prepared it
  SegmentRange segment;
  std::int64_t class_label = 0;
  /// What joins the embedding of the timestep: [1, 1, E] f32, or empty.
  Tensor vector;
  /// What stages read of a prompt, [1, tokens, …] each: for Pass::attend_prompt
  /// keys and values of each cross-attention of the segment, in the order of
  /// the blocks, C columns each in the compute type. All lie in `memory`.
  std::vector<Tensor> prompt;
  Tensor memory;
  /// The announced timesteps, ascending, and a row [W] f32 for each.
  std::vector<double> timesteps;
  Tensor table;

  /// The table's row, or an empty tensor if the timestep was not announced.
  [[nodiscard]] Tensor find(double timestep) const;
  [[nodiscard]] std::size_t num_bytes() const override;
};

/// A row of a timestep table that is to be computed.
struct TableRow {
  double timestep = 0;
  const Prepared* prepared = nullptr;
  Tensor target;  ///< [W] f32
};

/// What of its streams ranks may divide. Stages then take a stream's rows as
/// they come.
enum class Sharding : std::uint8_t {
  none,
  /// Stages see other rows through Pass::attend and Pass::gather alone. Every
  /// product over tokens says what it is part of (Pass::whole).
  tokens,
  pixels  ///< the streams are images: stages use Pass::image, too
};

/// The sizes of a network, or of a segment of it.
struct NetworkLayout {
  std::string_view place;  ///< in error messages
  SegmentRange segment;
  std::vector<Stage> stages;  ///< of the whole network: blocks + 2
  std::vector<StreamKind> streams;
  std::int64_t out_channels = 0;
  DType compute = DType::f32;
  Sharding sharding = Sharding::none;
};

/// Configuration, weights and arithmetic of a network; nothing else. A network
/// that holds a segment is asked for stages of that segment alone. Immutable.
/// Thread: any, one ctx per thread.
class Network {
 public:
  explicit Network(NetworkLayout layout) : layout_(std::move(layout)) {}
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  [[nodiscard]] const NetworkLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] SegmentRange segment() const noexcept {
    return layout_.segment;
  }
  [[nodiscard]] int num_blocks() const noexcept {
    return static_cast<int>(layout_.stages.size()) - 2;
  }
  [[nodiscard]] DType compute() const noexcept { return layout_.compute; }
  /// A rank's rows of a stream of so many tokens or pixels.
  [[nodiscard]] RowRange own(const ShardContext& shard,
                             std::int64_t rows) const;

  /// Errors: Errc::shape_mismatch for latents that it does not take.
  virtual void check_latents(const Shape& latents) const = 0;
  /// Rows that are computed together, at least 1. Bits do not depend on it,
  /// memory does.
  [[nodiscard]] virtual std::int64_t rows_at_once(const Shape& latents,
                                                  DeviceKind kind) const = 0;

  // What follows from a condition and a timestep alone.

  /// Checks the condition, and fills all but segment, timesteps and table.
  /// Errors: Errc::invalid_argument with the name of the condition's tensor.
  virtual void prepare(ExecContext& ctx, const Condition& condition,
                       Prepared& prepared) const = 0;
  /// Columns of the modulation that a stage reads.
  [[nodiscard]] virtual std::int64_t columns(int stage) const = 0;
  /// W: columns of a row of the timestep table. Here: those of all stages of
  /// the segment, side by side.
  [[nodiscard]] virtual std::int64_t table_width() const;
  /// Computes rows of the table. A row's bits do not depend on the others.
  virtual void fill_table(ExecContext& ctx,
                          std::span<const TableRow> rows) const = 0;
  /// Fills the modulation [B, columns of stages begin to end] f32 from a
  /// table's row [W] for each row of a batch. Here: copies them.
  virtual void modulate(ExecContext& ctx, std::span<const Tensor> rows,
                        int begin, int end, Tensor& modulation) const;

  /// Runs a stage. What it leaves in the state must lie outside of its own
  /// workspace scopes.
  virtual void run(Pass& pass, int stage, State& state) const = 0;
  /// Elements of one row's largest tensor in Pass::hidden, for stages from
  /// begin to end. Here: 0, the network does not use it.
  [[nodiscard]] virtual std::int64_t hidden_elements(const Shape& /*latents*/,
                                                     int /*begin*/,
                                                     int /*end*/) const {
    return 0;
  }

  /// Whether the weights of its blocks may be in host memory. Each block then
  /// has two groups: matrices of `run`, and those of `prepare` or `fill_table`.
  [[nodiscard]] const kernels::OffloadedLayers& offloaded() const noexcept {
    return offloaded_;
  }
  void set_offloaded(kernels::OffloadedLayers layers) {
    offloaded_ = std::move(layers);
  }
  /// To be called before the matrices of `run` of a block are used, with the
  /// block of the next call. Does nothing where weights are resident.
  void fetch(ExecContext& ctx, int block, int next) const;
  /// The same for those of `prepare` or `fill_table`.
  void fetch_prepared(ExecContext& ctx, int block) const;

 protected:
  /// The first of `columns` in the modulation or table of stages from `begin`.
  [[nodiscard]] std::int64_t columns_between(int begin, int end) const;
  /// The stages of the segment.
  [[nodiscard]] SegmentRange own_stages() const noexcept;

 private:
  NetworkLayout layout_;
  kernels::OffloadedLayers offloaded_;
};

}  // namespace troupe::models
