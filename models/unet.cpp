#include "models/unet.h"

#include <algorithm>
#include <utility>

#include "kernels/activation.h"
#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/norm.h"
#include "kernels/patchify.h"
#include "models/row_groups.h"
#include "models/unet_description.h"

// B rows, C channels, H and W sides of the latents.

namespace troupe::models {
namespace {

constexpr const char* kUNetPlace = "unet";
/// Latent pixels of rows that are computed together: activations of one row of
/// 64 × 64 are larger than any cache; a GPU wants more work at once.
constexpr std::int64_t kPixelsOnCpu = 4096;
constexpr std::int64_t kPixelsOnGpu = 65536;

/// The names of a boundary's tensors at `cut`, with the skips from `first_skip`
/// on.
std::vector<std::string> boundary_names(const UNetLayout& layout, int cut,
                                        int first_skip) {
  std::vector<std::string> names;
  const int live = layout.live_skips(cut);
  for (int i = first_skip; i < live; ++i) {
    names.push_back("skip." + std::to_string(i));
  }
  if (!layout.hidden_is_skip(cut) || first_skip == live) {
    names.emplace_back("hidden");
  }
  return names;
}

/// The oldest skip that a boundary at `cut` can hold, by its number of tensors.
int first_skip_of(const UNetLayout& layout, int cut, const Boundary& boundary) {
  const bool has_hidden = !boundary.empty() && boundary.back().name == "hidden";
  const int skips = static_cast<int>(boundary.size()) - (has_hidden ? 1 : 0);
  return std::max(layout.live_skips(cut) - skips, 0);
}

}  // namespace

std::int64_t unet_rows_at_once(std::int64_t pixels, DeviceKind kind) noexcept {
  const std::int64_t most =
      kind == DeviceKind::cpu ? kPixelsOnCpu : kPixelsOnGpu;
  return std::max<std::int64_t>(most / std::max<std::int64_t>(pixels, 1), 1);
}

UNet::UNet(ExecContext& ctx, const UNetConfig& config, SegmentRange segment,
           DType compute, WeightSource& source)
    : config_(config),
      layout_(config),
      segment_(checked_segment(kUNetPlace, layout_.size(), segment)),
      compute_(compute),
      weights_(load_unet_weights(ctx, config, segment_, compute, source)),
      info_(UNetDescription(config).info(config.latent_shape(), compute)) {
  info_.parameter_bytes = weights_.num_bytes;
  info_.weights_hash = weights_.hash;
}

PreparedPtr UNet::prepare(ExecContext& ctx, const Condition& condition,
                          std::span<const double> timesteps) const {
  return conditioner().prepare(ctx, condition, timesteps);
}

void UNet::predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                   std::span<Tensor> outputs) const {
  check_whole(kUNetPlace, shard);
  check_rows(kUNetPlace, batch, outputs.size(), true);
  check_owned(kUNetPlace, segment_, 0, layout_.size());
  if (outputs.empty()) {
    return;
  }
  const Shape shape = checked_latents(batch.latents);
  const Shape result = checked_outputs(outputs);
  require(result[1] == shape[1] && result[2] == shape[2], Errc::shape_mismatch,
          kUNetPlace,
          "output: got " + to_string(result) + ", expected the sides of " +
              to_string(shape));
  const UNetSides sides = UNetSides::of(shape);
  for_each_group(
      ctx, outputs.size(), unet_rows_at_once(sides.pixels(), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        const Batch rows = rows_of(batch, at, n);
        UNetState state;
        state.hidden = embed_rows(ctx, stack_rows(ctx, rows.latents));
        state.skips = {state.hidden};
        run_rows(ctx, rows, 0, layout_.size(), sides, state);
        Tensor images = ctx.workspace().take(
            with_rows(static_cast<std::int64_t>(n), result), DType::f32);
        finish_rows(ctx, state.hidden, images);
        unstack_rows(ctx, images, outputs.subspan(at, n));
      });
}

void UNet::embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                 std::span<Boundary> boundaries) const {
  check_whole(kUNetPlace, shard);
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          kUNetPlace, "latents and boundaries differ in number");
  if (boundaries.empty()) {
    return;
  }
  const Shape shape = checked_latents(batch.latents);
  for_each_group(
      ctx, boundaries.size(),
      unet_rows_at_once(UNetSides::of(shape).pixels(), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        UNetState state;
        state.hidden =
            embed_rows(ctx, stack_rows(ctx, batch.latents.subspan(at, n)));
        state.skips = {state.hidden};
        store_state(ctx, state, 0, 0, boundaries.subspan(at, n));
      });
}

void UNet::run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                      int begin, int end,
                      std::span<Boundary> boundaries) const {
  check_whole(kUNetPlace, shard);
  check_rows(kUNetPlace, batch, boundaries.size(), false);
  check_owned(kUNetPlace, segment_, begin, end);
  if (boundaries.empty() || begin == end) {
    return;
  }
  check_latent_shape(batch.latent_shape);
  const UNetSides sides = UNetSides::of(batch.latent_shape);
  const int first_skip = checked_boundaries(boundaries, begin, end, sides);
  for_each_group(ctx, boundaries.size(),
                 unet_rows_at_once(sides.pixels(), ctx.device().kind),
                 [&](std::size_t at, std::size_t n) {
                   const std::span<Boundary> group = boundaries.subspan(at, n);
                   UNetState state = load_state(ctx, group);
                   run_rows(ctx, rows_of(batch, at, n), begin, end, sides,
                            state);
                   store_state(ctx, state, end, first_skip, group);
                 });
}

void UNet::finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  std::span<const Boundary> boundaries,
                  std::span<Tensor> outputs) const {
  check_whole(kUNetPlace, shard);
  check_rows(kUNetPlace, batch, outputs.size(), false);
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, kUNetPlace,
          "boundaries and results differ in number");
  require(segment_.end == layout_.size(), Errc::invalid_argument, kUNetPlace,
          "finish: this segment does not hold the last block");
  if (outputs.empty()) {
    return;
  }
  const Shape result = checked_outputs(outputs);
  const UNetSides sides = UNetSides::of(result);
  (void)checked_boundaries(boundaries, layout_.size(), layout_.size(), sides);
  for_each_group(
      ctx, outputs.size(), unet_rows_at_once(sides.pixels(), ctx.device().kind),
      [&](std::size_t at, std::size_t n) {
        const UNetState state = load_state(ctx, boundaries.subspan(at, n));
        Tensor images = ctx.workspace().take(
            with_rows(static_cast<std::int64_t>(n), result), DType::f32);
        finish_rows(ctx, state.hidden, images);
        unstack_rows(ctx, images, outputs.subspan(at, n));
      });
}

Shape UNet::checked_latents(std::span<const Tensor> latents) const {
  const Shape shape = common_shape(kUNetPlace, "latents", latents);
  check_latent_shape(shape);
  return shape;
}

void UNet::check_latent_shape(const Shape& shape) const {
  const bool fits = shape.rank() == 3 && shape[0] == config_.in_channels &&
                    shape[1] > 0 && shape[2] > 0;
  require(fits, Errc::shape_mismatch, kUNetPlace,
          "latents: got " + to_string(shape) + ", expected " +
              std::to_string(config_.in_channels) + " channels and two sides");
}

Shape UNet::checked_outputs(std::span<const Tensor> outputs) const {
  const Shape shape = common_shape(kUNetPlace, "output", outputs);
  require(shape.rank() == 3 && shape[0] == config_.out_channels,
          Errc::shape_mismatch, kUNetPlace,
          "output: got " + to_string(shape) + ", expected " +
              std::to_string(config_.out_channels) + " channels");
  return shape;
}

int UNet::checked_boundaries(std::span<const Boundary> boundaries, int cut,
                             int end, const UNetSides& sides) const {
  const int first_skip = first_skip_of(layout_, cut, boundaries.front());
  const std::vector<std::string> names =
      boundary_names(layout_, cut, first_skip);
  const int oldest = layout_.oldest_taken(cut, end);
  require(first_skip <= oldest, Errc::shape_mismatch, kUNetPlace,
          "boundary: got no skip." + std::to_string(oldest) +
              ", which blocks " + std::to_string(cut) + " to " +
              std::to_string(end) + " take");
  const auto num_skips =
      static_cast<std::size_t>(layout_.live_skips(cut) - first_skip);
  for (const Boundary& boundary : boundaries) {
    require(boundary.size() == names.size(), Errc::shape_mismatch, kUNetPlace,
            "boundary: got " + std::to_string(boundary.size()) +
                " tensors, expected " + std::to_string(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const UNetPlane plane =
          i < num_skips
              ? layout_.skips()[static_cast<std::size_t>(first_skip) + i]
              : layout_.hidden(cut);
      const Tensor& tensor = boundary[i].tensor;
      const UNetSides here = sides.halved(plane.halvings);
      const Shape expected{here.height, here.width, plane.channels};
      require(boundary[i].name == names[i] && tensor.shape() == expected &&
                  tensor.dtype() == compute_ && !tensor.empty(),
              Errc::shape_mismatch, kUNetPlace,
              "boundary: got " + boundary[i].name + " " +
                  to_string(tensor.shape()) + " of " +
                  std::string(to_string(tensor.dtype())) + ", expected " +
                  names[i] + " " + to_string(expected) + " of " +
                  std::string(to_string(compute_)));
    }
  }
  return first_skip;
}

Tensor UNet::embed_rows(ExecContext& ctx, const Tensor& latents) const {
  require(weights_.conv_in.has_value(), Errc::invalid_argument, kUNetPlace,
          "embed: this segment does not hold block 0");
  const std::int64_t rows = latents.dim(0);
  Tensor out = ctx.workspace().take(
      {rows, latents.dim(2), latents.dim(3), config_.levels.front().width},
      compute_);
  const Workspace::Scope scope(ctx.workspace());
  Tensor x = ctx.workspace().take(
      {rows, latents.dim(2), latents.dim(3), latents.dim(1)}, compute_);
  kernels::to_channels_last(ctx, latents, x);
  kernels::conv2d(ctx, x, *weights_.conv_in, out);
  return out;
}

void UNet::run_rows(ExecContext& ctx, const Batch& rows, int begin, int end,
                    const UNetSides& sides, UNetState& state) const {
  const auto conditions = conditioner().conditions_of(ctx, rows);
  UNetPass pass(ctx, config_, layout_, weights_, compute_, conditions,
                conditioner().shifts_of(ctx, rows, conditions), {begin, end},
                sides);
  for (int i = begin; i < end; ++i) {
    pass.run(i, state);
  }
}

void UNet::finish_rows(ExecContext& ctx, const Tensor& hidden,
                       Tensor& images) const {
  const Workspace::Scope scope(ctx.workspace());
  Tensor normed = ctx.workspace().take(hidden.shape(), compute_);
  kernels::group_norm(ctx, hidden, weights_.norm_out->weight,
                      weights_.norm_out->bias, config_.norm_num_groups,
                      config_.norm_eps, config_.activation, normed);
  Tensor pixels = ctx.workspace().take(
      {hidden.dim(0), hidden.dim(1), hidden.dim(2), config_.out_channels},
      DType::f32);
  kernels::conv2d(ctx, normed, *weights_.conv_out, pixels);
  kernels::to_channels_first(ctx, pixels, images);
}

UNetState UNet::load_state(ExecContext& ctx,
                           std::span<const Boundary> boundaries) const {
  UNetState state;
  for (std::size_t i = 0; i < boundaries.front().size(); ++i) {
    std::vector<Tensor> rows;
    for (const Boundary& boundary : boundaries) {
      rows.push_back(kernels::on_device(ctx, boundary[i].tensor));
    }
    Tensor all = ctx.workspace().take(
        with_rows(static_cast<std::int64_t>(rows.size()), rows[0].shape()),
        compute_);
    kernels::gather(ctx, rows, all);
    state.skips.push_back(std::move(all));
  }
  state.hidden = state.skips.back();
  if (boundaries.front().back().name == "hidden") {
    state.skips.pop_back();
  }
  return state;
}

void UNet::store_state(ExecContext& ctx, const UNetState& state, int cut,
                       int first_skip, std::span<Boundary> boundaries) const {
  const std::vector<std::string> names =
      boundary_names(layout_, cut, first_skip);
  for (Boundary& boundary : boundaries) {
    boundary.resize(names.size());
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor& all = i < state.skips.size() ? state.skips[i] : state.hidden;
    const Shape shape(all.shape().extents().subspan(1));
    std::vector<Tensor> rows;
    for (Boundary& boundary : boundaries) {
      NamedTensor& named = boundary[i];
      if (named.tensor.shape() != shape || named.tensor.dtype() != compute_ ||
          !(named.tensor.device() == ctx.device())) {
        named.tensor = ctx.empty(shape, compute_);
      }
      named.name = names[i];
      rows.push_back(named.tensor);
    }
    kernels::scatter(ctx, all, rows);
  }
}

}  // namespace troupe::models
