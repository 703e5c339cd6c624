#pragma once

#include <cstdint>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "actors/job_parts.h"
#include "actors/prepared_conditions.h"
#include "models/network/denoiser.h"
#include "samplers/evaluator.h"

namespace troupe::actors {

/// What a network needs to know to serve a job.
struct EvaluatorOptions {
  /// Of it: guidance, cuts, timesteps, latents and pictures.
  JobRecord job;
  /// What the record names: sample i has conditions[i modulo their number].
  std::vector<StoredCondition> conditions;
  /// Of guidance's other branch, likewise; none: there is one branch.
  std::vector<StoredCondition> unconditional;
};

/// The most that prepared conditions take of a device's memory beside those
/// that a pass uses.
[[nodiscard]] std::size_t most_prepared_bytes(const models::DenoiserInfo& info);

/// The conditions for which the network is told a job's timesteps. This takes
/// `bytes` of memory: at most a sixteenth of the blocks' weights, or 96 MiB if
/// that is more.
struct PreparationPlan {
  bool cond = false;
  bool uncond = false;
  std::uint64_t bytes = 0;
};

/// The unconditional branch comes first, since it mostly is one condition for
/// every sample: all of its conditions, or none. Then come all conditional
/// ones, or none. Pure.
[[nodiscard]] PreparationPlan plan_preparation(const models::DenoiserInfo& info,
                                               std::size_t num_timesteps,
                                               std::size_t num_conditions,
                                               std::size_t num_unconditional);

/// Lets a models::Denoiser serve as the samplers' Evaluator, on every device
/// whose memory has its weights. A call goes to the copy on its context's
/// device, or for each rank of the context to that of the rank's. Conditions
/// are prepared once on each device. The two guidance branches of a row go
/// through the network as one forward pass, in the model's own order. Segments
/// are block ranges; those of an onion keep the skips that the network names so
/// (models/network/boundary_skips.h). Errors: Errc::internal for the context of
/// a device without a copy. Thread: any, one ctx per thread.
class DenoiserEvaluator final : public samplers::Evaluator {
 public:
  /// `models`: copies of one network, at least one. The options are those of a
  /// record that was checked.
  DenoiserEvaluator(const std::vector<DeviceModel>& models,
                    EvaluatorOptions options);

  [[nodiscard]] Shape latent_shape() const override { return latent_shape_; }
  [[nodiscard]] std::int64_t out_channels() const override {
    return info().out_channels;
  }
  void evaluate(ExecContext& ctx,
                std::span<samplers::EvaluateRow> rows) override;
  void evaluate_cached(ExecContext& ctx,
                       std::span<samplers::CachedRow> rows) override;
  void combine(ExecContext& ctx, double timestep, const Tensor& cond,
               const Tensor& uncond, Tensor& out) override;
  [[nodiscard]] int num_segments() const override {
    return static_cast<int>(options_.job.cuts.size()) - 1;
  }
  void run_segment(ExecContext& ctx, int segment,
                   std::span<samplers::SegmentRow> rows) override;
  [[nodiscard]] std::uint64_t ticks_per_row() const override {
    return info().blocks.size() * (guided_ ? 2 : 1);
  }
  [[nodiscard]] std::string first_non_finite(
      ExecContext& ctx, const samplers::EvaluateRow& row) override;
  void decode(ExecContext& ctx, const Tensor& latents,
              Tensor& pixels) override {
    actors::decode(
        ctx,
        [this](const ExecContext& on) -> const LoadedModel& {
          return copy_on(on).model;
        },
        latents, options_.job.vae_tile, options_.job.picture_size, pixels);
  }

 private:
  struct Rows;
  /// The model of one device, and the conditions that are prepared there.
  struct Copy : DeviceModel {
    Copy(const DeviceModel& loaded, PreparationPlan plan);
    PreparationPlan preparation;
    PreparedConditions prepared;
  };
  [[nodiscard]] Copy& copy_on(const ExecContext& ctx);
  /// Of any copy: for what all of them have in common.
  [[nodiscard]] const models::DenoiserInfo& info() const {
    return copies_.front().model.denoiser->info();
  }
  [[nodiscard]] bool is_cond_first() const {
    return info().branch_order == models::BranchOrder::cond_uncond;
  }
  /// Of the job, without rows yet.
  [[nodiscard]] Rows no_rows() const;
  void add_row(ExecContext& ctx, Rows& rows, std::uint64_t sample_index,
               samplers::Branch branch, double timestep, const Tensor& latents,
               bool needs_both);
  /// Calls pass(context, shard, denoiser, batch) for each rank, with the
  /// network and the conditions of its device. rows_on(context): the rows
  /// there.
  template <typename RowsOn, typename Pass>
  void run(ExecContext& ctx, const RowsOn& rows_on, const Pass& pass);
  /// Where the network writes the output of each branch of these rows, and what
  /// joins the branches there afterwards.
  template <typename Row>
  [[nodiscard]] std::vector<Tensor> branch_outputs(ExecContext& ctx,
                                                   std::span<Row> rows) const;
  template <typename Row>
  void join_branches(ExecContext& ctx, std::span<const Tensor> outputs,
                     std::span<Row> rows);
  [[nodiscard]] bool has_both(const samplers::EvaluateRow& row) const noexcept {
    return row.branch == samplers::Branch::guided && guides_at(row.timestep);
  }
  /// Segments of a row may run at steps of different noise levels (stale), so
  /// that they always carry both.
  [[nodiscard]] bool has_both(
      const samplers::SegmentRow& /*row*/) const noexcept {
    return guided_;
  }
  [[nodiscard]] bool guides_at(double timestep) const noexcept {
    return guided_ && !unguided_.contains(timestep);
  }

  EvaluatorOptions options_;
  Shape latent_shape_;
  bool guided_;
  std::set<double> unguided_;  ///< timesteps outside of guidance's interval
  std::list<Copy> copies_;
};

}  // namespace troupe::actors
