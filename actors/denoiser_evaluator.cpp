#include "actors/denoiser_evaluator.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "models/network/block_cache.h"
#include "models/network/boundary_skips.h"
#include "models/network/diagnose.h"

namespace troupe::actors {
namespace {

using samplers::Branch;

// What conditions prepared for all timesteps may take: a part of the weights,
// or this much with small networks.
constexpr std::size_t kPreparedShare = 16;
constexpr std::size_t kPreparedFloor = std::size_t{96} << 20U;
// Beside the tensors that were planned.
constexpr std::size_t kSlack = std::size_t{1} << 20U;

/// What a row carries for all its branches, by branch. It may come from another
/// process.
std::vector<Boundary> by_branch(Boundary joined, std::size_t branches) {
  require(joined.size() % branches == 0, Errc::shape_mismatch, "boundary",
          "got " + std::to_string(joined.size()) +
              " tensors, expected as many "
              "for each of " +
              std::to_string(branches) + " branches");
  std::vector<Boundary> parts(branches);
  const std::size_t each = joined.size() / branches;
  for (std::size_t i = 0; i < joined.size(); ++i) {
    parts[i / each].push_back(std::move(joined[i]));
  }
  return parts;
}

void append(Boundary& to, Boundary part) {
  std::move(part.begin(), part.end(), std::back_inserter(to));
}

}  // namespace

std::size_t most_prepared_bytes(const models::DenoiserInfo& info) {
  std::size_t weights = 0;
  for (const models::BlockInfo& block : info.blocks) {
    weights += block.parameter_bytes;
  }
  return std::max(kPreparedFloor, weights / kPreparedShare);
}

PreparationPlan plan_preparation(const models::DenoiserInfo& info,
                                 std::size_t num_timesteps,
                                 std::size_t num_conditions,
                                 std::size_t num_unconditional) {
  const std::size_t one = num_timesteps * info.bytes_per_timestep;
  const std::size_t most = most_prepared_bytes(info);
  if (one == 0 || one > most) {
    return {};
  }
  const bool uncond = num_unconditional > 0 && num_unconditional <= most / one;
  const std::size_t others = uncond ? num_unconditional : 0;
  const bool cond = num_conditions <= most / one - others;
  return {.cond = cond,
          .uncond = uncond,
          .bytes = one * (others + (cond ? num_conditions : 0))};
}

/// The operands of one forward pass, column by column as models::Batch wants
/// them.
struct DenoiserEvaluator::Rows {
  Shape latent_shape;
  std::int64_t ring_blocks;
  std::vector<Tensor> latents;
  std::vector<double> timesteps;
  std::vector<models::PreparedPtr> prepared;  ///< what `conditions` point to
  std::vector<const models::PreparedCondition*> conditions;

  [[nodiscard]] models::Batch batch() const {
    return {latents, timesteps, conditions, latent_shape, ring_blocks};
  }
};

DenoiserEvaluator::Copy::Copy(const DeviceModel& loaded, PreparationPlan plan)
    : DeviceModel(loaded),
      preparation(plan),
      prepared(*model.denoiser,
               most_prepared_bytes(model.denoiser->info()) + kSlack) {}

DenoiserEvaluator::DenoiserEvaluator(const std::vector<DeviceModel>& models,
                                     EvaluatorOptions options)
    : options_(std::move(options)),
      latent_shape_(options_.job.latent_shape),
      guided_(options_.job.guidance.is_on() &&
              !options_.unconditional.empty()) {
  require(!models.empty(), Errc::internal, "evaluator",
          "the model was loaded nowhere");
  const JobRecord& job = options_.job;
  const std::size_t calls =
      job.guidance.interval ? job.schedule.timesteps.size() : 0;
  for (std::size_t c = 0; c < calls; ++c) {
    if (!job.guidance.is_on_at(job.schedule.sigmas.at(c))) {
      unguided_.insert(job.schedule.timesteps[c]);
    }
  }
  for (const DeviceModel& on : models) {
    copies_.emplace_back(
        on, plan_preparation(on.model.denoiser->info(),
                             job.schedule.timesteps.size(),
                             job.num_used(job.conditions),
                             guided_ ? job.num_used(job.unconditional) : 0));
  }
}

DenoiserEvaluator::Copy& DenoiserEvaluator::copy_on(const ExecContext& ctx) {
  const auto found =
      std::ranges::find(copies_, ctx.device(), &DeviceModel::device);
  require(found != copies_.end(), Errc::internal, to_string(ctx.device()),
          "the model was not loaded there");
  return *found;
}

void DenoiserEvaluator::add_row(ExecContext& ctx, Rows& rows,
                                std::uint64_t sample_index, Branch branch,
                                double timestep, const Tensor& latents,
                                bool needs_both) {
  Copy& here = copy_on(ctx);
  const auto add = [&](bool is_cond) {
    const auto& all = is_cond ? options_.conditions : options_.unconditional;
    const StoredCondition& condition = all[sample_index % all.size()];
    const bool announces =
        is_cond ? here.preparation.cond : here.preparation.uncond;
    rows.latents.push_back(latents);
    rows.timesteps.push_back(timestep);
    rows.prepared.push_back(here.prepared.get(
        ctx, condition,
        announces ? std::span<const double>(options_.job.schedule.timesteps)
                  : std::span<const double>()));
    rows.conditions.push_back(rows.prepared.back().get());
  };
  if (!guided_ || branch != Branch::guided) {
    return add(!guided_ || branch == Branch::cond);
  }
  if (!needs_both) {
    return add(true);
  }
  add(is_cond_first());
  add(!is_cond_first());
}

DenoiserEvaluator::Rows DenoiserEvaluator::no_rows() const {
  return {.latent_shape = latent_shape(),
          .ring_blocks = options_.job.ring_blocks.value_or(1)};
}

template <typename RowsOn, typename Pass>
void DenoiserEvaluator::run(ExecContext& ctx, const RowsOn& rows_on,
                            const Pass& pass) {
  const Rows here = rows_on(ctx);
  with_ranks(ctx, [&](ExecContext& on, ShardContext& shard) {
    const bool is_here = on.device() == ctx.device();
    const Rows rows = is_here ? here : rows_on(on);
    pass(on, shard, *copy_on(on).model.denoiser, rows.batch());
  });
}

template <typename Row>
std::vector<Tensor> DenoiserEvaluator::branch_outputs(
    ExecContext& ctx, std::span<Row> rows) const {
  std::vector<Tensor> outputs;
  for (const Row& row : rows) {
    if (has_both(row)) {
      outputs.push_back(ctx.workspace().take(row.output.shape(), DType::f32));
      outputs.push_back(ctx.workspace().take(row.output.shape(), DType::f32));
    } else {
      outputs.push_back(row.output);
    }
  }
  return outputs;
}

template <typename Row>
void DenoiserEvaluator::join_branches(ExecContext& ctx,
                                      std::span<const Tensor> outputs,
                                      std::span<Row> rows) {
  std::size_t next = 0;
  for (Row& row : rows) {
    if (!has_both(row)) {
      ++next;
      continue;
    }
    const Tensor& first = outputs[next];
    const Tensor& second = outputs[next + 1];
    combine(ctx, row.timestep, is_cond_first() ? first : second,
            is_cond_first() ? second : first, row.output);
    next += 2;
  }
}

void DenoiserEvaluator::evaluate(ExecContext& ctx,
                                 std::span<samplers::EvaluateRow> rows) {
  const Workspace::Scope scope(ctx.workspace());
  const auto rows_on = [&](ExecContext& on) {
    Rows forward = no_rows();
    for (const samplers::EvaluateRow& row : rows) {
      add_row(on, forward, row.sample_index, row.branch, row.timestep,
              row.latents, has_both(row));
    }
    return forward;
  };
  std::vector<Tensor> outputs = branch_outputs(ctx, rows);
  run(ctx, rows_on,
      [&](ExecContext& on, ShardContext& shard,
          const models::Denoiser& denoiser, const models::Batch& batch) {
        denoiser.predict(on, shard, batch, outputs);
      });
  join_branches(ctx, std::span<const Tensor>(outputs), rows);
}

/// A worker of several ranks runs it on one.
void DenoiserEvaluator::evaluate_cached(ExecContext& ctx,
                                        std::span<samplers::CachedRow> rows) {
  const Workspace::Scope scope(ctx.workspace());
  Rows forward = no_rows();
  std::vector<models::CachedRows> groups;
  for (samplers::CachedRow& row : rows) {
    const std::size_t begin = forward.timesteps.size();
    add_row(ctx, forward, row.sample_index, row.branch, row.timestep,
            row.latents, has_both(row));
    groups.push_back({.size = forward.timesteps.size() - begin,
                      .threshold = row.threshold,
                      .cache = std::move(row.cache)});
  }
  std::vector<Tensor> outputs = branch_outputs(ctx, rows);
  models::predict_cached(ctx, *copy_on(ctx).model.denoiser, forward.batch(),
                         groups, outputs);
  join_branches(ctx, std::span<const Tensor>(outputs), rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cache = std::move(groups[i].cache);
    rows[i].is_reused = groups[i].is_reused;
  }
}

void DenoiserEvaluator::combine(ExecContext& ctx, double timestep,
                                const Tensor& cond, const Tensor& uncond,
                                Tensor& out) {
  if (!guides_at(timestep)) {
    kernels::copy(ctx, cond, out);
    return;
  }
  kernels::guide(ctx, cond, uncond, options_.job.guidance.scale,
                 info().guided_channels, out);
  if (options_.job.guidance.rescale > 0) {
    Tensor guided = out.slice(0, info().guided_channels);
    kernels::rescale_deviation(ctx, cond.slice(0, info().guided_channels),
                               options_.job.guidance.rescale, guided);
  }
}

void DenoiserEvaluator::run_segment(ExecContext& ctx, int segment,
                                    std::span<samplers::SegmentRow> rows) {
  const std::size_t branches = guided_ ? 2 : 1;
  const bool is_last = segment + 1 == num_segments();
  const auto rows_on = [&](ExecContext& on) {
    Rows forward = no_rows();
    for (const samplers::SegmentRow& row : rows) {
      add_row(on, forward, row.sample_index, Branch::guided, row.timestep,
              row.latents, true);
    }
    return forward;
  };
  std::vector<Boundary> boundaries(rows.size() * branches);
  for (std::size_t r = 0; r < rows.size() && segment > 0; ++r) {
    std::vector<Boundary> hidden =
        by_branch(std::move(rows[r].boundary), branches);
    std::vector<Boundary> skips = by_branch(std::move(rows[r].skips), branches);
    for (std::size_t b = 0; b < branches; ++b) {
      boundaries[r * branches + b] =
          models::join_skips(std::move(skips[b]), std::move(hidden[b]));
    }
  }
  const auto cut = options_.job.cuts.begin() + segment;
  const Workspace::Scope scope(ctx.workspace());
  std::vector<Tensor> outputs;
  if (is_last) {
    outputs = branch_outputs(ctx, rows);
  }
  run(ctx, rows_on,
      [&](ExecContext& on, ShardContext& shard,
          const models::Denoiser& denoiser, const models::Batch& batch) {
        if (segment == 0) {
          denoiser.embed(on, shard, batch, boundaries);
        }
        denoiser.run_blocks(on, shard, batch, cut[0], cut[1], boundaries);
        if (is_last) {
          denoiser.finish(on, shard, batch, boundaries, outputs);
        }
      });
  if (is_last) {
    return join_branches(ctx, std::span<const Tensor>(outputs), rows);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r].boundary.clear();
    rows[r].skips.clear();
    for (std::size_t b = 0; b < branches; ++b) {
      Boundary part = std::move(boundaries[r * branches + b]);
      if (rows[r].keeps_skips) {
        models::SplitBoundary split = models::split_skips(part);
        append(rows[r].skips, std::move(split.skips));
        part = std::move(split.hidden);
      }
      append(rows[r].boundary, std::move(part));
    }
  }
}

std::string DenoiserEvaluator::first_non_finite(
    ExecContext& ctx, const samplers::EvaluateRow& row) {
  Rows forward = no_rows();
  add_row(ctx, forward, row.sample_index, row.branch, row.timestep, row.latents,
          has_both(row));
  ShardContext whole;
  return models::first_non_finite(ctx, whole, *copy_on(ctx).model.denoiser,
                                  forward.batch());
}

}  // namespace troupe::actors
