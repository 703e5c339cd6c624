#include "models/dit_modulation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "models/prompt_tensors.h"

// R rows, D width.

namespace troupe::models {
namespace {

constexpr std::int64_t kTimestepDim = 256;

class DitCondition final : public PreparedCondition {
 public:
  /// timesteps: ascending; table: one row for each.
  DitCondition(std::int64_t label, std::vector<double> timesteps, Tensor table)
      : class_label(label),
        timesteps_(std::move(timesteps)),
        table_(std::move(table)) {}

  /// The table's row [W], or nothing if the timestep was not announced.
  [[nodiscard]] std::optional<Tensor> find(double timestep) const {
    const auto found = std::ranges::lower_bound(timesteps_, timestep);
    if (found == timesteps_.end() || *found != timestep) {
      return std::nullopt;
    }
    return table_.item(found - timesteps_.begin());
  }

  [[nodiscard]] std::size_t num_bytes() const override {
    return table_.num_bytes();
  }

  const std::int64_t class_label;

 private:
  std::vector<double> timesteps_;
  Tensor table_;  // [T, W] f32
};

}  // namespace

struct DitModulation::Embedding {
  Embedding(Workspace& workspace, std::int64_t rows, std::int64_t width,
            DType compute)
      : frequencies(workspace.take({rows, kTimestepDim}, DType::f32)),
        timestep_in(workspace.take({rows, 1, kTimestepDim}, compute)),
        timestep_hidden(workspace.take({rows, 1, width}, compute)),
        sum(workspace.take({rows, 1, width}, DType::f32)),
        activated(workspace.take({rows, 1, width}, compute)) {}

  Tensor frequencies;      // [R, 256]
  Tensor timestep_in;      // [R, 1, 256]
  Tensor timestep_hidden;  // [R, 1, D]
  Tensor sum;              // [R, 1, D]: timestep plus class
  Tensor activated;        // [R, 1, D]
};

std::int64_t DitModulation::width(int begin, int end) const {
  const std::int64_t rows = std::int64_t{6} * (end - begin);
  return (end > config_.num_layers ? rows - 4 : rows) * config_.width();
}

std::int64_t DitModulation::width() const {
  return width(weights_.segment.begin, end());
}

int DitModulation::end() const {
  const int blocks_end = weights_.segment.end;
  return blocks_end == config_.num_layers ? blocks_end + 1 : blocks_end;
}

PreparedPtr DitModulation::prepare(ExecContext& ctx, const Condition& condition,
                                   std::span<const double> announced) const {
  const std::int64_t label = condition.class_label();
  if (label < 0 || label > config_.num_classes) {
    throw Error(Errc::invalid_argument, "class",
                "got " + std::to_string(label) + ", expected 0 to " +
                    std::to_string(config_.num_classes) +
                    " (the last one is 'no class')",
                "choose another class");
  }
  std::vector<double> timesteps = ascending(announced);
  Tensor table = ctx.empty(
      {static_cast<std::int64_t>(timesteps.size()), width()}, DType::f32);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    rows.push_back(
        {timesteps[i], label, table.item(static_cast<std::int64_t>(i))});
  }
  compute(ctx, rows, weights_.segment.begin, end());
  ctx.synchronize();  // other contexts of the device will read it
  return std::make_shared<const DitCondition>(label, std::move(timesteps),
                                              std::move(table));
}

void DitModulation::fill(ExecContext& ctx, const Batch& batch, int begin,
                         int end, Tensor& table) const {
  const Workspace::Scope scope(ctx.workspace());
  const std::int64_t columns = width(begin, end);
  const std::int64_t first = width(weights_.segment.begin, begin);
  std::vector<Row> missing;
  std::vector<Tensor> rows;
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    const auto* condition =
        dynamic_cast<const DitCondition*>(batch.conditions[i]);
    require(condition != nullptr, Errc::invalid_argument, "dit",
            "the condition was not prepared by a DiT");
    if (const auto known = condition->find(batch.timesteps[i])) {
      ctx.keep(*known);  // the condition may be let go before it is read
      rows.push_back(known->slice(first, first + columns));
    } else {
      rows.push_back(ctx.workspace().take({columns}, DType::f32));
      missing.push_back(
          {batch.timesteps[i], condition->class_label, rows.back()});
    }
  }
  compute(ctx, missing, begin, end);
  kernels::gather(ctx, rows, table);
}

void DitModulation::compute(ExecContext& ctx, std::span<const Row> rows,
                            int begin, int end) const {
  if (rows.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const auto count = static_cast<std::int64_t>(rows.size());
  Embedding embedding(ctx.workspace(), count, config_.width(), compute_);
  const auto take_part = [&](int part) {
    return ctx.workspace().take({count, 1, width(part, part + 1)}, DType::f32);
  };
  Tensor block = take_part(0);
  Tensor output = take_part(static_cast<int>(config_.num_layers));
  const DitEmbedder* embedder = nullptr;
  for (int part = begin; part < end; ++part) {
    const bool is_output = part == config_.num_layers;
    const DitBlockWeights* weights =
        is_output ? nullptr
                  : &weights_.blocks[static_cast<std::size_t>(
                        part - weights_.segment.begin)];
    const DitEmbedder* own =
        is_output ? weights_.embedder_0.get() : weights->embedder.get();
    if (own != embedder) {
      embedder = own;
      embed(ctx, rows, *embedder, embedding);
    }
    if (!is_output) {
      const int last = std::min<int>(end, weights_.segment.end) - 1;
      weights_.fetch_modulation(ctx, part, std::min(part + 1, last));
    }
    Tensor& made = is_output ? output : block;
    kernels::linear(ctx, embedding.activated,
                    is_output ? weights_.proj_out_1 : weights->modulation,
                    kernels::Activation::none, made);  // [R, 1, 6D or 2D]
    std::vector<Tensor> targets;
    for (const Row& row : rows) {
      targets.push_back(
          row.target.slice(width(begin, part), width(begin, part + 1)));
    }
    kernels::scatter(ctx, made.reshape({count, made.dim(2)}), targets);
  }
}

void DitModulation::embed(ExecContext& ctx, std::span<const Row> rows,
                          const DitEmbedder& embedder,
                          Embedding& embedding) const {
  using kernels::Activation;
  std::vector<double> timesteps;
  for (const Row& row : rows) {
    timesteps.push_back(row.timestep);
  }
  kernels::timestep_embedding(ctx, timesteps, 1.0, 10000.0,
                              embedding.frequencies);
  Tensor frequencies =
      embedding.frequencies.reshape(embedding.timestep_in.shape());
  kernels::convert(ctx, frequencies, embedding.timestep_in);  // [R, 1, 256]
  kernels::linear(ctx, embedding.timestep_in, embedder.timestep_1,
                  Activation::silu, embedding.timestep_hidden);  // [R, 1, D]
  kernels::linear(ctx, embedding.timestep_hidden, embedder.timestep_2,
                  Activation::none, embedding.sum);  // [R, 1, D]
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Tensor sum = embedding.sum.item(static_cast<std::int64_t>(i));  // [1, D]
    kernels::add(
        ctx,
        embedder.class_table.item(rows[i].class_label).reshape(sum.shape()),
        sum);
  }
  kernels::activate(ctx, embedding.sum, Activation::silu,
                    embedding.activated);  // [R, 1, D]
}

}  // namespace troupe::models
