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

std::int64_t DitModulation::part_width(int part) const {
  const std::int64_t rows = part == config_.num_layers ? 2 : 6;
  return rows * config_.width();
}

std::int64_t DitModulation::column(int part) const {
  const std::int64_t before = part - weights_.segment.begin;
  return before * 6 * config_.width();
}

std::int64_t DitModulation::width() const {
  const int end = weights_.segment.end;
  return column(end) + (end == config_.num_layers ? part_width(end) : 0);
}

PreparedPtr DitModulation::prepare(ExecContext& ctx,
                                   const Condition& condition) const {
  const std::int64_t label = condition.class_label;
  if (label < 0 || label > config_.num_classes) {
    throw Error(Errc::invalid_argument, "class",
                "got " + std::to_string(label) + ", expected 0 to " +
                    std::to_string(config_.num_classes) +
                    " (the last one is 'no class')",
                "choose another class");
  }
  std::vector<double> timesteps(condition.timesteps.begin(),
                                condition.timesteps.end());
  std::ranges::sort(timesteps);
  timesteps.erase(std::unique(timesteps.begin(), timesteps.end()),
                  timesteps.end());
  Tensor table = ctx.empty(
      {static_cast<std::int64_t>(timesteps.size()), width()}, DType::f32);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < timesteps.size(); ++i) {
    rows.push_back(
        {timesteps[i], label, table.item(static_cast<std::int64_t>(i))});
  }
  const int end = weights_.segment.end;
  compute(ctx, rows, weights_.segment.begin,
          end == config_.num_layers ? end + 1 : end);
  ctx.synchronize();  // other contexts of the device will read it
  return std::make_shared<const DitCondition>(label, std::move(timesteps),
                                              std::move(table));
}

void DitModulation::fill(ExecContext& ctx, const Batch& batch, int begin,
                         int end, Tensor& table) const {
  std::vector<Row> missing;
  for (std::size_t i = 0; i < batch.conditions.size(); ++i) {
    const auto* condition =
        dynamic_cast<const DitCondition*>(batch.conditions[i]);
    require(condition != nullptr, Errc::invalid_argument, "dit",
            "the condition was not prepared by a DiT");
    const Tensor row = table.item(static_cast<std::int64_t>(i));
    const std::optional<Tensor> known = condition->find(batch.timesteps[i]);
    if (!known) {
      missing.push_back({batch.timesteps[i], condition->class_label, row});
    } else {
      const std::int64_t last = column(end - 1) + part_width(end - 1);
      Tensor target = row.slice(column(begin), last);
      kernels::copy(ctx, known->slice(column(begin), last), target);
    }
  }
  compute(ctx, missing, begin, end);
}

void DitModulation::compute(ExecContext& ctx, std::span<const Row> rows,
                            int begin, int end) const {
  if (rows.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  const auto count = static_cast<std::int64_t>(rows.size());
  Embedding embedding(ctx.workspace(), count, config_.width(), compute_);
  Tensor block = ctx.workspace().take({count, 1, part_width(0)}, DType::f32);
  Tensor output = ctx.workspace().take(
      {count, 1, part_width(static_cast<int>(config_.num_layers))}, DType::f32);
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
      weights_.visit_modulation(ctx, part, std::min(part + 1, last));
    }
    Tensor& made = is_output ? output : block;
    kernels::linear(ctx, embedding.activated,
                    is_output ? weights_.proj_out_1 : weights->modulation,
                    kernels::Activation::none, made);  // [R, 1, 6D or 2D]
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Tensor row = made.item(static_cast<std::int64_t>(i)).item(0);
      Tensor target =
          rows[i].target.slice(column(part), column(part) + row.dim(0));
      kernels::copy(ctx, row, target);
    }
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
