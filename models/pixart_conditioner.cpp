#include "models/pixart_conditioner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "models/prompt_tensors.h"

// B rows of a batch, T timesteps, L tokens of the prompt, D width.

namespace troupe::models {
namespace {

constexpr const char* kName = "prompt_embeds";
using kernels::Activation;

}  // namespace

const ConditionTensor& checked_prompt(const PixArtConfig& config,
                                      const Condition& condition) {
  for (const ConditionTensor& item : condition.tensors()) {
    require(item.name == kName, Errc::invalid_argument, item.name,
            "the network does not take it: expected prompt_embeds alone");
  }
  return checked_prompt_embeds(condition, config.caption_channels);
}

PixArtCondition::PixArtCondition(SegmentRange segment,
                                 std::vector<double> timesteps, Tensor table,
                                 Tensor key_values)
    : segment_(segment),
      timesteps_(std::move(timesteps)),
      table_(std::move(table)),
      key_values_(std::move(key_values)) {}

Tensor PixArtCondition::find(double timestep) const {
  const auto found = std::ranges::lower_bound(timesteps_, timestep);
  if (found == timesteps_.end() || *found != timestep) {
    return {};
  }
  return table_.item(found - timesteps_.begin());
}

Tensor PixArtCondition::key_values(int block) const {
  const std::int64_t index = block - segment_.begin;
  return key_values_.slice(index, index + 1);
}

std::int64_t PixArtConditioner::width(int begin, int end) const {
  const std::int64_t columns = std::int64_t{6} * (end - begin);
  return (end > config_.num_layers ? columns - 4 : columns) * config_.width();
}

PreparedPtr PixArtConditioner::prepare(
    ExecContext& ctx, const Condition& condition,
    std::span<const double> announced) const {
  const ConditionTensor& prompt = checked_prompt(config_, condition);
  std::vector<double> timesteps = ascending(announced);
  const std::int64_t width = config_.width();
  Tensor table = ctx.empty(
      {static_cast<std::int64_t>(timesteps.size()), 8 * width}, DType::f32);
  embed(ctx, timesteps, table);

  const SegmentRange segment = weights_.segment;
  Tensor key_values = ctx.empty(
      {segment.end - segment.begin, prompt.length, 2 * width}, compute_);
  const Workspace::Scope scope(ctx.workspace());
  const Tensor caption = project(ctx, prompt);  // [1, L, D]
  for (int i = segment.begin; i < segment.end; ++i) {
    const std::int64_t index = i - segment.begin;
    weights_.fetch_prompt(ctx, i, std::min(i + 1, segment.end - 1));
    Tensor out = key_values.slice(index, index + 1);
    kernels::linear(
        ctx, caption,
        weights_.blocks[static_cast<std::size_t>(index)].cross_key_value,
        Activation::none, out);  // [1, L, 2D]
    ctx.tick(1);
  }
  ctx.synchronize();  // other contexts of the device will read it
  return std::make_shared<const PixArtCondition>(
      segment, std::move(timesteps), std::move(table), std::move(key_values));
}

Tensor PixArtConditioner::project(ExecContext& ctx,
                                  const ConditionTensor& prompt) const {
  const auto take = [&](std::int64_t columns, DType dtype) {
    return ctx.workspace().take({1, prompt.length, columns}, dtype);
  };
  const Tensor x =
      in_compute_type(ctx, prompt.tensor.slice(0, prompt.length), compute_);
  Tensor hidden = take(config_.width(), compute_);
  kernels::linear(ctx, x, weights_.caption_1, Activation::gelu_tanh,
                  hidden);  // [1, L, D]
  Tensor caption = take(config_.width(), compute_);
  kernels::linear(ctx, hidden, weights_.caption_2, Activation::none,
                  caption);  // [1, L, D]
  return caption;
}

std::vector<const PixArtCondition*> PixArtConditioner::conditions_of(
    ExecContext& ctx, const Batch& batch) const {
  std::vector<const PixArtCondition*> conditions;
  for (const PreparedCondition* prepared : batch.conditions) {
    const auto* condition = dynamic_cast<const PixArtCondition*>(prepared);
    require(condition != nullptr && condition->segment() == weights_.segment,
            Errc::invalid_argument, "pixart",
            "the condition was not prepared by this network");
    ctx.keep(condition->all_key_values());
    conditions.push_back(condition);
  }
  return conditions;
}

std::vector<Tensor> PixArtConditioner::bases_of(
    ExecContext& ctx, const Batch& batch,
    std::span<const PixArtCondition* const> conditions) const {
  std::vector<Tensor> bases;
  std::vector<double> missing;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    bases.push_back(conditions[i]->find(batch.timesteps[i]));
    if (bases[i].empty()) {
      missing.push_back(batch.timesteps[i]);
    } else {
      ctx.keep(bases[i]);
    }
  }
  missing = ascending(missing);
  Tensor made = ctx.workspace().take(
      {static_cast<std::int64_t>(missing.size()), 8 * config_.width()},
      DType::f32);
  embed(ctx, missing, made);
  for (std::size_t i = 0; i < bases.size(); ++i) {
    if (bases[i].empty()) {
      const auto at = std::ranges::lower_bound(missing, batch.timesteps[i]);
      bases[i] = made.item(at - missing.begin());
    }
  }
  return bases;
}

void PixArtConditioner::fill(ExecContext& ctx, const Batch& batch, int begin,
                             int end, Tensor& table) const {
  const Workspace::Scope scope(ctx.workspace());
  const std::int64_t width = config_.width();
  const auto conditions = conditions_of(ctx, batch);
  const std::vector<Tensor> bases = bases_of(ctx, batch, conditions);

  // The learned tables first, then the timestep's part on top.
  const std::int64_t first = this->width(weights_.segment.begin, begin);
  const Tensor learned =
      weights_.tables.slice(first, first + this->width(begin, end));
  kernels::gather(ctx, std::vector<Tensor>(bases.size(), learned), table);
  const std::int64_t blocks =
      std::min<std::int64_t>(end, config_.num_layers) - begin;
  const std::int64_t split = 6 * blocks * width;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const Tensor row = table.item(static_cast<std::int64_t>(i));
    if (blocks > 0) {
      const Workspace::Scope repeated(ctx.workspace());
      Tensor six = ctx.workspace().take({blocks, 6 * width}, DType::f32);
      kernels::gather(ctx,
                      std::vector<Tensor>(static_cast<std::size_t>(blocks),
                                          bases[i].slice(0, 6 * width)),
                      six);
      Tensor target = row.slice(0, split);
      kernels::add(ctx, six.reshape({split}), target);
    }
    if (end > config_.num_layers) {
      Tensor target = row.slice(split, split + 2 * width);
      kernels::add(ctx, bases[i].slice(6 * width, 8 * width), target);
    }
  }
}

void PixArtConditioner::embed(ExecContext& ctx,
                              std::span<const double> timesteps,
                              Tensor& base) const {
  if (timesteps.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const auto count = static_cast<std::int64_t>(timesteps.size());
  const std::int64_t width = config_.width();
  const auto take = [&](std::int64_t columns, DType dtype) {
    return ctx.workspace().take({count, 1, columns}, dtype);
  };
  Tensor frequencies =
      ctx.workspace().take({count, kPixArtFrequencies}, DType::f32);
  kernels::timestep_embedding(ctx, timesteps, 0.0, 10000.0, frequencies);
  Tensor in = take(kPixArtFrequencies, compute_);
  kernels::convert(ctx, frequencies.reshape(in.shape()), in);  // [T, 1, 256]
  Tensor hidden = take(width, compute_);
  kernels::linear(ctx, in, weights_.timestep.timestep_1, Activation::silu,
                  hidden);  // [T, 1, D]
  Tensor embedding = take(width, DType::f32);
  kernels::linear(ctx, hidden, weights_.timestep.timestep_2, Activation::none,
                  embedding);  // [T, 1, D]
  Tensor activated = take(width, compute_);
  kernels::activate(ctx, embedding, Activation::silu, activated);
  Tensor six = take(6 * width, DType::f32);
  kernels::linear(ctx, activated, weights_.timestep.six, Activation::none,
                  six);  // [T, 1, 6D]

  // Side by side: 6D of all blocks, then twice D.
  const auto scatter = [&](const Tensor& from, std::int64_t begin,
                           std::int64_t columns) {
    std::vector<Tensor> targets;
    for (std::int64_t i = 0; i < count; ++i) {
      targets.push_back(base.item(i).slice(begin, begin + columns));
    }
    kernels::scatter(ctx, from.reshape({count, columns}), targets);
  };
  scatter(six, 0, 6 * width);
  scatter(embedding, 6 * width, width);
  scatter(embedding, 7 * width, width);
}

}  // namespace troupe::models
