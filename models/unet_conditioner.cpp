#include "models/unet_conditioner.h"

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

// T timesteps, L tokens of the prompt, E width of the timestep's embedding, W
// columns of the shifts.

namespace troupe::models {
namespace {

constexpr const char* kPrompt = "prompt_embeds";
constexpr const char* kPooledItem = "pooled";
constexpr const char* kSizeIds = "size_ids";
constexpr double kMaxPeriod = 10000.0;

using kernels::Activation;

/// Errors: Errc::invalid_argument unless the tensor is there, with this shape
/// and of one of these types.
void check_vector(const Condition& condition, const char* name,
                  std::int64_t size, bool only_f32) {
  const ConditionTensor* found = condition.find(name);
  require(found != nullptr, Errc::invalid_argument, name,
          "missing: the network is conditioned on it");
  if (found->tensor.shape() != Shape{size}) {
    throw Error(Errc::invalid_argument, name,
                "got shape " + to_string(found->tensor.shape()) +
                    ", expected " + to_string(Shape{size}));
  }
  const DType dtype = found->tensor.dtype();
  const bool is_narrow = dtype == DType::bf16 || dtype == DType::f16;
  if (dtype != DType::f32 && (only_f32 || !is_narrow)) {
    throw Error(Errc::invalid_argument, name,
                "got " + std::string(to_string(dtype)) + ", expected " +
                    (only_f32 ? "f32" : "f32, bf16 or f16"));
  }
}

}  // namespace

void check_unet_condition(const UNetConfig& config,
                          const Condition& condition) {
  const std::string taken = config.has_sizes()
                                ? "prompt_embeds, pooled and size_ids"
                                : "prompt_embeds alone";
  for (const ConditionTensor& item : condition.tensors()) {
    const bool is_known = item.name == kPrompt ||
                          (config.has_sizes() &&
                           (item.name == kPooledItem || item.name == kSizeIds));
    require(is_known, Errc::invalid_argument, item.name,
            "the network does not take it: expected " + taken);
  }
  (void)checked_prompt_embeds(condition, config.cross_attention_dim);
  if (config.has_sizes()) {
    const ConditionTensor* ids = condition.find(kSizeIds);
    const bool has_score =
        ids != nullptr &&
        ids->tensor.shape() == Shape{UNetConfig::kScoredSizes};
    const std::int64_t sizes =
        has_score ? UNetConfig::kScoredSizes : UNetConfig::kSizes;
    check_vector(condition, kPooledItem, config.pooled_beside(sizes), false);
    check_vector(condition, kSizeIds, sizes, true);
  }
}

UNetCondition::UNetCondition(SegmentRange segment, Tensor added,
                             std::vector<double> timesteps, Tensor shifts,
                             std::vector<Tensor> key_values)
    : segment_(segment),
      added_(std::move(added)),
      timesteps_(std::move(timesteps)),
      shifts_(std::move(shifts)),
      key_values_(std::move(key_values)) {}

Tensor UNetCondition::find(double timestep) const {
  const auto found = std::ranges::lower_bound(timesteps_, timestep);
  if (found == timesteps_.end() || *found != timestep) {
    return {};
  }
  return shifts_.item(found - timesteps_.begin());
}

std::size_t UNetCondition::num_bytes() const {
  std::size_t bytes = added_.num_bytes() + shifts_.num_bytes();
  for (const Tensor& tensor : key_values_) {
    bytes += tensor.num_bytes();
  }
  return bytes;
}

std::int64_t UNetConditioner::shift_width(const UNetLayout& layout,
                                          SegmentRange units) {
  std::int64_t width = 0;
  for (int i = units.begin; i < units.end; ++i) {
    width += layout.unit(i).out_channels *
             static_cast<std::int64_t>(layout.unit(i).resnets.size());
  }
  return width;
}

PreparedPtr UNetConditioner::prepare(ExecContext& ctx,
                                     const Condition& condition,
                                     std::span<const double> announced) const {
  check_unet_condition(config_, condition);
  std::vector<double> timesteps = ascending(announced);
  const Tensor added = added_embedding(ctx, condition);
  Tensor shifts = ctx.empty({static_cast<std::int64_t>(timesteps.size()),
                             shift_width(layout_, weights_.segment)},
                            DType::f32);
  fill_shifts(ctx, added, timesteps, shifts);

  const ConditionTensor& prompt = *condition.find(kPrompt);
  std::vector<Tensor> key_values;
  const Workspace::Scope scope(ctx.workspace());
  const Tensor text =
      in_compute_type(ctx, prompt.tensor.slice(0, prompt.length), compute_);
  for (const UNetUnitWeights& unit : weights_.units) {
    if (!unit.transformer) {
      continue;
    }
    for (const UNetTransformerBlock& block : unit.transformer->blocks) {
      key_values.push_back(ctx.empty(
          {1, prompt.length, block.cross_key_value.out_features()}, compute_));
      kernels::linear(ctx, text, block.cross_key_value, Activation::none,
                      key_values.back());  // [1, L, 2C]
      ctx.tick(1);
    }
  }
  ctx.synchronize();  // other contexts of the device will read it
  return std::make_shared<const UNetCondition>(
      weights_.segment, added, std::move(timesteps), std::move(shifts),
      std::move(key_values));
}

Tensor UNetConditioner::added_embedding(ExecContext& ctx,
                                        const Condition& condition) const {
  if (!config_.has_sizes()) {
    return {};
  }
  Tensor embedding = ctx.empty({1, 1, config_.time_embed_dim}, DType::f32);
  const Workspace::Scope scope(ctx.workspace());
  const Tensor sizes = kernels::on_host(ctx, condition.find(kSizeIds)->tensor);
  const std::vector<double> ids(sizes.span<float>().begin(),
                                sizes.span<float>().end());
  Tensor frequencies = ctx.workspace().take(
      {sizes.num_elements(), config_.size_embed_dim}, DType::f32);
  kernels::timestep_embedding(ctx, ids, 0.0, kMaxPeriod, frequencies);
  // The pooled prompt, then the sizes, as one row.
  const std::int64_t pooled = config_.pooled_beside(sizes.num_elements());
  Tensor in = ctx.workspace().take({1, 1, config_.added_width()}, compute_);
  const Tensor row = in.reshape({config_.added_width()});
  Tensor first = row.slice(0, pooled);
  Tensor rest = row.slice(pooled, config_.added_width());
  kernels::copy(
      ctx,
      in_compute_type(ctx, condition.find(kPooledItem)->tensor, compute_)
          .reshape(first.shape()),
      first);
  kernels::convert(ctx, frequencies.reshape(rest.shape()), rest);
  Tensor hidden =
      ctx.workspace().take({1, 1, config_.time_embed_dim}, compute_);
  kernels::linear(ctx, in, weights_.added_1, Activation::silu,
                  hidden);  // [1, 1, E]
  kernels::linear(ctx, hidden, weights_.added_2, Activation::none,
                  embedding);  // [1, 1, E]
  return embedding;
}

void UNetConditioner::fill_shifts(ExecContext& ctx, const Tensor& added,
                                  std::span<const double> timesteps,
                                  Tensor& shifts) const {
  if (timesteps.empty() || shifts.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const auto count = static_cast<std::int64_t>(timesteps.size());
  const std::int64_t width = config_.levels.front().width;
  const auto take = [&](std::int64_t columns, DType dtype) {
    return ctx.workspace().take({count, 1, columns}, dtype);
  };
  Tensor frequencies = ctx.workspace().take({count, width}, DType::f32);
  kernels::timestep_embedding(ctx, timesteps, 0.0, kMaxPeriod, frequencies);
  Tensor in = take(width, compute_);
  kernels::convert(ctx, frequencies.reshape(in.shape()), in);
  Tensor hidden = take(config_.time_embed_dim, compute_);
  kernels::linear(ctx, in, weights_.time_1, config_.activation,
                  hidden);  // [T, 1, E]
  Tensor embedding = take(config_.time_embed_dim, DType::f32);
  kernels::linear(ctx, hidden, weights_.time_2, Activation::none,
                  embedding);  // [T, 1, E]
  if (!added.empty()) {
    for (std::int64_t i = 0; i < count; ++i) {
      Tensor row = embedding.slice(i, i + 1);
      kernels::add(ctx, added, row);
    }
  }
  Tensor activated = take(config_.time_embed_dim, compute_);
  kernels::activate(ctx, embedding, config_.activation, activated);
  Tensor out = shifts.reshape({count, 1, shifts.dim(1)});
  kernels::linear(ctx, activated, weights_.time_shifts, Activation::none,
                  out);  // [T, 1, W]
}

std::vector<const UNetCondition*> UNetConditioner::conditions_of(
    ExecContext& ctx, const Batch& batch) const {
  std::vector<const UNetCondition*> conditions;
  for (const PreparedCondition* prepared : batch.conditions) {
    const auto* condition = dynamic_cast<const UNetCondition*>(prepared);
    require(condition != nullptr && condition->segment() == weights_.segment,
            Errc::invalid_argument, "unet",
            "the condition was not prepared by this network");
    for (const Tensor& tensor : condition->key_values()) {
      ctx.keep(tensor);
    }
    conditions.push_back(condition);
  }
  return conditions;
}

Tensor UNetConditioner::shifts_of(
    ExecContext& ctx, const Batch& batch,
    std::span<const UNetCondition* const> conditions) const {
  const auto rows = static_cast<std::int64_t>(conditions.size());
  Tensor shifts = ctx.workspace().take(
      {rows, shift_width(layout_, weights_.segment)}, DType::f32);
  if (shifts.empty()) {
    return shifts;
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const Tensor known = conditions[at]->find(batch.timesteps[at]);
    Tensor row = shifts.slice(i, i + 1);
    if (known.empty()) {
      fill_shifts(ctx, conditions[at]->added(), batch.timesteps.subspan(at, 1),
                  row);
      continue;
    }
    ctx.keep(known);
    Tensor target = row.item(0);
    kernels::copy(ctx, known, target);
  }
  return shifts;
}

}  // namespace troupe::models
