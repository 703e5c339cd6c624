#include "models/network/driver.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "models/layers/prompt_tensors.h"
#include "models/network/network_meter.h"
#include "models/network/pass.h"

// B rows of a group, W columns of a table or a modulation.

namespace troupe::models {
namespace {

constexpr std::string_view kSkip = "skip.";

std::uint64_t address_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(
      reinterpret_cast<std::uintptr_t>(tensor.bytes().data()));
}

bool is_same(const Tensor& a, const Tensor& b) {
  return address_of(a) == address_of(b);
}

/// The shape of `tensors`. Errors: Errc::shape_mismatch unless all have it and
/// are f32.
Shape common_shape(const std::string& place, std::string_view what,
                   std::span<const Tensor> tensors) {
  const Shape shape = tensors.front().shape();
  for (const Tensor& tensor : tensors) {
    require(tensor.shape() == shape && tensor.dtype() == DType::f32,
            Errc::shape_mismatch, place,
            std::string(what) + ": got " + to_string(tensor.shape()) + " of " +
                std::string(to_string(tensor.dtype())) + ", expected " +
                to_string(shape) + " of f32");
  }
  return shape;
}

void check_rows(const std::string& place, const Batch& batch,
                std::size_t rows) {
  require(batch.timesteps.size() == rows && batch.conditions.size() == rows,
          Errc::shape_mismatch, place,
          "timesteps, conditions and results differ in number");
}

/// Rows [begin, begin + count) of a batch, which may lack latents.
Batch rows_of(const Batch& batch, std::size_t begin, std::size_t count) {
  return {batch.latents.empty() ? batch.latents
                                : batch.latents.subspan(begin, count),
          batch.timesteps.subspan(begin, count),
          batch.conditions.subspan(begin, count), batch.latent_shape,
          batch.ring_blocks};
}

/// Rows […] as one tensor [B, …] in the workspace. Rows may lie on other
/// devices.
Tensor stack_rows(ExecContext& ctx, std::span<const Tensor> rows) {
  Tensor all = ctx.workspace().take(
      with_rows(static_cast<std::int64_t>(rows.size()), rows[0].shape()),
      rows[0].dtype());
  std::vector<Tensor> here;
  for (const Tensor& row : rows) {
    here.push_back(kernels::on_device(ctx, row));
  }
  kernels::gather(ctx, here, all);
  return all;
}

/// Copies each item of `stacked` [B, …] to its row […]. Rows may lie on other
/// devices.
void unstack_rows(ExecContext& ctx, const Tensor& stacked,
                  std::span<Tensor> rows) {
  const bool is_here = std::ranges::all_of(
      rows, [&](const Tensor& row) { return row.device() == ctx.device(); });
  if (is_here) {
    return kernels::scatter(ctx, stacked, rows);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    kernels::copy(ctx, stacked.item(static_cast<std::int64_t>(i)), rows[i]);
  }
}

/// Copies the tensors, which hold a row for each boundary, to the boundaries.
/// Tensors of the right shape that these hold are written in place.
void store(ExecContext& ctx, const Boundary& state,
           std::span<Boundary> boundaries) {
  for (Boundary& boundary : boundaries) {
    boundary.resize(state.size());
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Tensor& all = state[i].tensor;
    const Shape shape(all.shape().extents().subspan(1));
    std::vector<Tensor> rows;
    for (Boundary& boundary : boundaries) {
      auto& [name, tensor] = boundary[i];
      if (tensor.shape() != shape || tensor.dtype() != all.dtype() ||
          !(tensor.device() == ctx.device())) {
        tensor = ctx.empty(shape, all.dtype());
      }
      name = state[i].name;
      rows.push_back(tensor);
    }
    kernels::scatter(ctx, all, rows);
  }
}

/// Where the pass writes its output, on the rank that does.
void take_output(Pass& pass, const ShardContext& shard,
                 std::span<const Tensor> outputs) {
  if (shard.rank() == 0) {
    pass.output =
        pass.take(with_rows(pass.rows(), outputs[0].shape()), DType::f32);
  }
}

void give_output(Pass& pass, std::span<Tensor> outputs) {
  if (!pass.output.empty()) {
    unstack_rows(pass.ctx(), pass.output, outputs);
  }
}

/// The tensors of a boundary without its first `first_skip` skips. `whole`:
/// with all of them; `live`: how many these are.
std::vector<TensorKind> without_skips(std::vector<TensorKind> whole, int live,
                                      int first_skip,
                                      std::string_view first_stream) {
  const bool is_skip =
      std::ranges::find(whole, first_stream, &TensorKind::name) == whole.end();
  if (is_skip && first_skip == live) {
    // The first stream, which was the newest skip, stands for itself.
    whole[static_cast<std::size_t>(live) - 1].name = first_stream;
    --first_skip;
  }
  whole.erase(whole.begin(), whole.begin() + first_skip);
  return whole;
}

}  // namespace

/// Rows that are computed together.
struct NetworkDriver::Group {
  std::size_t begin;
  std::size_t size;
  Batch rows;
  std::vector<const Prepared*> prepared;
  Shape latents;
  int first_stage, end_stage;
  ShardContext* shard;
};

NetworkDriver::NetworkDriver(std::unique_ptr<const Network> network,
                             DenoiserInfo info,
                             std::shared_ptr<const NetworkMeter> meter)
    : place_(network->layout().place),
      network_(std::move(network)),
      info_(std::move(info)),
      meter_(std::move(meter)) {}

PreparedPtr NetworkDriver::prepare(ExecContext& ctx, const Condition& condition,
                                   std::span<const double> announced) const {
  auto prepared = std::make_shared<Prepared>();
  prepared->place = network_->layout().place;
  prepared->segment = network_->segment();
  network_->prepare(ctx, condition, *prepared);
  prepared->timesteps = ascending(announced);
  const auto count = static_cast<std::int64_t>(prepared->timesteps.size());
  prepared->table = ctx.empty({count, network_->table_width()}, DType::f32);
  if (!prepared->table.empty()) {
    std::vector<TableRow> rows;
    for (std::int64_t i = 0; i < count; ++i) {
      rows.push_back({prepared->timesteps[static_cast<std::size_t>(i)],
                      prepared.get(), prepared->table.item(i)});
    }
    const Workspace::Scope scope(ctx.workspace());
    network_->fill_table(ctx, rows);
  }
  ctx.synchronize();  // other contexts of the device will read it
  return prepared;
}

void NetworkDriver::predict(ExecContext& ctx, ShardContext& shard,
                            const Batch& batch,
                            std::span<Tensor> outputs) const {
  check_rows(place_, batch, outputs.size());
  require(batch.latents.size() == outputs.size(), Errc::shape_mismatch, place_,
          "latents and results differ in number");
  check_owned(place_, network_->segment(), 0, num_blocks());
  if (outputs.empty()) {
    return;
  }
  const Shape latents = checked_latents(batch);
  check_outputs(outputs, latents);
  ShardContext* const ranks = ranks_of(shard, latents);
  if (ranks == nullptr) {
    return;
  }
  for_each_group(ctx, *ranks, batch, latents, 0, num_blocks() + 2,
                 [&](const Group& group, Pass& pass) {
                   pass.latents = stack_rows(ctx, group.rows.latents);
                   take_output(pass, *ranks, outputs);
                   replay(ctx, group,
                          {{pass.latents, pass.output, pass.modulation()}},
                          [&] {
                            State state;
                            run_stages(pass, group, state);
                          });
                   give_output(pass, outputs.subspan(group.begin, group.size));
                 });
}

void NetworkDriver::embed(ExecContext& ctx, ShardContext& shard,
                          const Batch& batch,
                          std::span<Boundary> boundaries) const {
  check_rows(place_, batch, boundaries.size());
  require(batch.latents.size() == boundaries.size(), Errc::shape_mismatch,
          place_, "latents and boundaries differ in number");
  require(network_->segment().begin == 0, Errc::invalid_argument, place_,
          "embed: this segment does not hold block 0");
  if (boundaries.empty()) {
    return;
  }
  const Shape latents = checked_latents(batch);
  ShardContext* const ranks = ranks_of(shard, latents);
  if (ranks == nullptr) {
    return;
  }
  for_each_group(
      ctx, *ranks, batch, latents, 0, 1, [&](const Group& group, Pass& pass) {
        pass.latents = stack_rows(ctx, group.rows.latents);
        State state;
        run_stages(pass, group, state);
        keep(ctx, group, state, 0, boundaries.subspan(group.begin, group.size));
      });
}

void NetworkDriver::run_blocks(ExecContext& ctx, ShardContext& shard,
                               const Batch& batch, int begin, int end,
                               std::span<Boundary> boundaries) const {
  check_rows(place_, batch, boundaries.size());
  check_owned(place_, network_->segment(), begin, end);
  if (boundaries.empty() || begin == end) {
    return;
  }
  const Shape& latents = batch.latent_shape;
  network_->check_latents(latents);
  ShardContext* const ranks = ranks_of(shard, latents);
  if (ranks == nullptr) {
    return;
  }
  const int first_skip = checked_boundaries(boundaries, begin, end, latents);
  for_each_group(ctx, *ranks, batch, latents, begin + 1, end + 1,
                 [&](const Group& group, Pass& pass) {
                   const auto rows =
                       boundaries.subspan(group.begin, group.size);
                   State state = load(ctx, *ranks, rows);
                   if (!records(ctx) || ranks->world_size() > 1) {
                     run_stages(pass, group, state);
                     return keep(ctx, group, state, first_skip, rows);
                   }
                   // What a recording leaves must be known where it is only
                   // played.
                   const Boundary before = named(state, first_skip);
                   const Boundary after = place_results(
                       ctx, before, begin, end, first_skip, group, latents);
                   std::vector<Tensor> operands = {pass.modulation()};
                   for (const Boundary* boundary : {&before, &after}) {
                     for (const NamedTensor& item : *boundary) {
                       operands.push_back(item.tensor);
                     }
                   }
                   replay(ctx, group, operands, [&] {
                     run_stages(pass, group, state);
                     const Boundary made = named(state, first_skip);
                     for (std::size_t i = 0; i < made.size(); ++i) {
                       if (!is_same(made[i].tensor, after[i].tensor)) {
                         Tensor target = after[i].tensor;
                         kernels::copy(ctx, made[i].tensor, target);
                       }
                     }
                   });
                   store(ctx, after, rows);
                 });
}

void NetworkDriver::finish(ExecContext& ctx, ShardContext& shard,
                           const Batch& batch,
                           std::span<const Boundary> boundaries,
                           std::span<Tensor> outputs) const {
  check_rows(place_, batch, outputs.size());
  require(boundaries.size() == outputs.size(), Errc::shape_mismatch, place_,
          "boundaries and results differ in number");
  require(network_->segment().end == num_blocks(), Errc::invalid_argument,
          place_, "finish: this segment does not hold the last block");
  if (outputs.empty()) {
    return;
  }
  const Shape& latents = batch.latent_shape;
  network_->check_latents(latents);
  check_outputs(outputs, latents);
  ShardContext* const ranks = ranks_of(shard, latents);
  if (ranks == nullptr) {
    return;
  }
  (void)checked_boundaries(boundaries, num_blocks(), num_blocks(), latents);
  const int last = num_blocks() + 1;
  for_each_group(ctx, *ranks, batch, latents, last, last + 1,
                 [&](const Group& group, Pass& pass) {
                   State state =
                       load(ctx, *ranks,
                            boundaries.subspan(group.begin, group.size));
                   take_output(pass, *ranks, outputs);
                   run_stages(pass, group, state);
                   give_output(pass, outputs.subspan(group.begin, group.size));
                 });
}

ShardContext* NetworkDriver::ranks_of(ShardContext& shard,
                                      const Shape& latents) const {
  const int ranks = shard.world_size();
  if (ranks == 1) {
    return &shard;
  }
  require(network_->layout().sharding != Sharding::none && meter_ != nullptr,
          Errc::unsupported, place_,
          "token shards: got " + std::to_string(ranks) + " ranks, expected 1");
  std::int64_t most = 0;
  for (const std::int64_t tokens : tokens_of(latents)) {
    most = std::max(most, tokens);
  }
  if (most >= kLeastTokens * ranks) {
    return &shard;
  }
  static ShardContext one;  // has no state
  return shard.rank() == 0 ? &one : nullptr;
}

std::vector<std::int64_t> NetworkDriver::tokens_of(const Shape& latents) const {
  std::vector<std::int64_t> tokens;
  for (const TensorKind& stream : meter_->figures(latents).boundaries[0]) {
    tokens.push_back(stream.shape[0]);
  }
  return tokens;
}

void NetworkDriver::keep(ExecContext& ctx, const Group& group,
                         const State& state, int first_skip,
                         std::span<Boundary> boundaries) const {
  const Boundary made = named(state, first_skip);
  ShardContext& shard = *group.shard;
  if (shard.world_size() == 1) {
    return store(ctx, made, boundaries);
  }
  // Every rank has read what stands there.
  shard.meet();
  if (shard.rank() == 0) {
    Boundary whole;
    for (const TensorKind& kind :
         expected_at(group.end_stage - 1, first_skip, group.latents)) {
      whole.push_back({kind.name, ctx.empty(kind.shape, kind.dtype)});
    }
    boundaries[0] = std::move(whole);
  }
  shard.meet();
  const auto divides = [&](const Tensor& all) {
    return network_->layout().sharding != Sharding::pixels ||
           ImagePass::divides(shard, all.dim(0));
  };
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Tensor& all = boundaries[0][i].tensor;
    const RowRange rows = network_->own(shard, all.dim(0));
    // What every rank has, rank 0 writes.
    const bool is_copy = shard.rank() > 0 && !divides(all);
    if (rows.size() > 0 && !is_copy) {
      Tensor target = all.slice(rows.begin, rows.end);
      if (shard.rank() > 0) {
        ctx.keep(target);  // the lead's: a rank that hangs may write it later
      }
      kernels::copy(ctx, made[i].tensor.item(0), target);
    }
  }
  shard.meet();
}

Shape NetworkDriver::checked_latents(const Batch& batch) const {
  const Shape latents = common_shape(place_, "latents", batch.latents);
  network_->check_latents(latents);
  return latents;
}

void NetworkDriver::check_outputs(std::span<const Tensor> outputs,
                                  const Shape& latents) const {
  const Shape expected = with_channels(latents, out_channels());
  const Shape shape = common_shape(place_, "output", outputs);
  require(
      shape == expected, Errc::shape_mismatch, place_,
      "output: got " + to_string(shape) + ", expected " + to_string(expected));
}

int NetworkDriver::live_skips(int cut) const {
  int live = 0;
  for (int stage = 0; stage <= cut; ++stage) {
    const Stage& its =
        network_->layout().stages[static_cast<std::size_t>(stage)];
    live += (its.makes_skip ? 1 : 0) - (its.takes_skip ? 1 : 0);
  }
  return live;
}

int NetworkDriver::checked_boundaries(std::span<const Boundary> boundaries,
                                      int cut, int end,
                                      const Shape& latents) const {
  const int live = live_skips(cut);
  const auto held = std::ranges::count_if(
      boundaries.front(),
      [](const NamedTensor& item) { return item.name.starts_with(kSkip); });
  const int first_skip = std::max(live - static_cast<int>(held), 0);
  if (!meter_) {
    return first_skip;
  }
  int oldest = live;
  for (int to = cut + 1; to <= end; ++to) {
    oldest = std::min(oldest, live_skips(to));
  }
  require(first_skip <= oldest, Errc::shape_mismatch, place_,
          "boundary: got no skip." + std::to_string(oldest) +
              ", which blocks " + std::to_string(cut) + " to " +
              std::to_string(end) + " take");
  const std::vector<TensorKind> kinds = expected_at(cut, first_skip, latents);
  for (const Boundary& boundary : boundaries) {
    require(boundary.size() == kinds.size(), Errc::shape_mismatch, place_,
            "boundary: got " + std::to_string(boundary.size()) +
                " tensors, expected " + std::to_string(kinds.size()));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto& [name, tensor] = boundary[i];
      require(name == kinds[i].name && tensor.shape() == kinds[i].shape &&
                  tensor.dtype() == kinds[i].dtype && !tensor.empty(),
              Errc::shape_mismatch, place_,
              "boundary: got " + name + " " + to_string(tensor.shape()) +
                  " of " + std::string(to_string(tensor.dtype())) +
                  ", expected " + kinds[i].name + " " +
                  to_string(kinds[i].shape) + " of " +
                  std::string(to_string(kinds[i].dtype)));
    }
  }
  return first_skip;
}

std::vector<TensorKind> NetworkDriver::expected_at(int cut, int first_skip,
                                                   const Shape& latents) const {
  return without_skips(
      meter_->figures(latents).boundaries[static_cast<std::size_t>(cut)],
      live_skips(cut), first_skip, network_->layout().streams[0].name);
}

Boundary NetworkDriver::place_results(ExecContext& ctx, const Boundary& before,
                                      int begin, int end, int first_skip,
                                      const Group& group,
                                      const Shape& latents) const {
  const int kept_skips = live_skips(begin);
  Boundary after;
  for (const TensorKind& kind : expected_at(end, first_skip, latents)) {
    const auto found = std::ranges::find(before, kind.name, &NamedTensor::name);
    const bool is_skip = kind.name.starts_with(kSkip);
    const bool stays =
        is_skip ? std::stoi(kind.name.substr(kSkip.size())) < kept_skips
                : is_residual(kind.name);
    after.push_back(
        {kind.name,
         stays && found != before.end()
             ? found->tensor
             : ctx.workspace().take(
                   with_rows(static_cast<std::int64_t>(group.size), kind.shape),
                   kind.dtype)});
  }
  return after;
}

bool NetworkDriver::is_residual(std::string_view stream) const {
  const auto& streams = network_->layout().streams;
  const auto found = std::ranges::find(streams, stream, &StreamKind::name);
  return found != streams.end() && found->is_residual;
}

std::vector<const Prepared*> NetworkDriver::prepared_of(
    ExecContext& ctx, const Batch& rows) const {
  std::vector<const Prepared*> all;
  for (const PreparedCondition* condition : rows.conditions) {
    const auto* prepared = dynamic_cast<const Prepared*>(condition);
    // What has nothing of a segment serves all of them.
    const bool fits =
        prepared != nullptr && prepared->place == network_->layout().place &&
        (prepared->segment == network_->segment() ||
         (prepared->prompt.empty() && prepared->timesteps.empty()));
    require(fits, Errc::invalid_argument, place_,
            "the condition was not prepared by this network");
    ctx.keep(prepared->memory);
    ctx.keep(prepared->vector);
    all.push_back(prepared);
  }
  return all;
}

Tensor NetworkDriver::modulation_of(ExecContext& ctx, const Batch& rows,
                                    std::span<const Prepared* const> prepared,
                                    int begin, int end) const {
  std::int64_t width = 0;
  for (int stage = begin; stage < end; ++stage) {
    width += network_->columns(stage);
  }
  const auto count = static_cast<std::int64_t>(prepared.size());
  Tensor modulation = ctx.workspace().take({count, width}, DType::f32);
  if (width == 0) {
    return modulation;
  }
  const Workspace::Scope scope(ctx.workspace());
  std::vector<Tensor> table;
  std::vector<TableRow> missing;
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    table.push_back(prepared[i]->find(rows.timesteps[i]));
    if (table[i].empty()) {
      table[i] = ctx.workspace().take({network_->table_width()}, DType::f32);
      missing.push_back({rows.timesteps[i], prepared[i], table[i]});
    } else {
      ctx.keep(table[i]);  // the condition may be let go before it is read
    }
  }
  if (!missing.empty()) {
    const Workspace::Scope inner(ctx.workspace());
    network_->fill_table(ctx, missing);
  }
  network_->modulate(ctx, table, begin, end, modulation);
  return modulation;
}

template <typename Fn>
void NetworkDriver::for_each_group(ExecContext& ctx, ShardContext& shard,
                                   const Batch& batch, const Shape& latents,
                                   int begin, int end, const Fn& fn) const {
  // The tokens of one row of a batch lie behind one another.
  const auto step = shard.world_size() > 1
                        ? std::size_t{1}
                        : static_cast<std::size_t>(
                              network_->rows_at_once(latents, ctx.kind()));
  const std::size_t rows = batch.timesteps.size();
  for (std::size_t at = 0; at < rows; at += step) {
    const Workspace::Scope scope(ctx.workspace());
    const std::size_t size = std::min(step, rows - at);
    Group group{at,  size,  rows_of(batch, at, size), {}, latents, begin,
                end, &shard};
    group.prepared = prepared_of(ctx, group.rows);
    Pass pass(ctx, shard, *network_, latents, batch.ring_blocks, group.prepared,
              modulation_of(ctx, group.rows, group.prepared, begin, end), begin,
              end);
    fn(group, pass);
  }
}

void NetworkDriver::run_stages(Pass& pass, const Group& group,
                               State& state) const {
  const int begin = group.first_stage;
  const int end = group.end_stage;
  const int first_block = std::max(begin, 1) - 1;
  const int end_block = std::min(end - 1, num_blocks());
  for (int stage = begin; stage < end; ++stage) {
    if (stage == std::max(begin, 1)) {
      pass.open(state, group.shard->world_size() > 1
                           ? tokens_of(group.latents)
                           : std::vector<std::int64_t>());
    }
    const int block = stage - 1;
    const bool is_block = stage > 0 && block < num_blocks();
    if (is_block) {
      // After the last block the first: the next pass begins there.
      network_->fetch(pass.ctx(), block,
                      block + 1 == end_block ? first_block : block + 1);
    }
    network_->run(pass, stage, state);
    if (is_block) {
      pass.ctx().tick(static_cast<std::uint64_t>(pass.rows()));
    }
  }
  if (end <= num_blocks() + 1) {
    pass.settle();
  }
}

bool NetworkDriver::records(ExecContext& ctx) const {
  return ctx.device().kind == DeviceKind::cuda && network_->offloaded().empty();
}

void NetworkDriver::replay(ExecContext& ctx, const Group& group,
                           std::span<const Tensor> operands,
                           const std::function<void()>& fn) const {
  if (!records(ctx)) {
    return fn();
  }
  // The stages, the number and size of rows, their memory, and the ranks' parts
  // of it.
  std::vector<std::uint64_t> key = {
      static_cast<std::uint64_t>(group.first_stage),
      static_cast<std::uint64_t>(group.end_stage), group.size,
      static_cast<std::uint64_t>(group.rows.ring_blocks)};
  for (const std::int64_t extent : group.latents.extents()) {
    key.push_back(static_cast<std::uint64_t>(extent));
  }
  for (const Tensor& operand : operands) {
    key.push_back(address_of(operand));
  }
  const ShardContext& shard = *group.shard;
  for (int rank = 0; shard.world_size() > 1 && rank < shard.world_size();
       ++rank) {
    constexpr std::int64_t kMany = std::int64_t{1} << 30U;
    key.push_back(static_cast<std::uint64_t>(shard.rows_of(rank, kMany).begin));
  }
  key.push_back(static_cast<std::uint64_t>(shard.rank()));
  key.push_back(static_cast<std::uint64_t>(shard.phase()));
  // Other prompts of as many tokens may get the memory later.
  for (const Prepared* prepared : group.prepared) {
    if (!prepared->prompt.empty()) {
      key.push_back(address_of(prepared->memory));
      key.push_back(static_cast<std::uint64_t>(prepared->prompt[0].dim(1)));
    }
  }
  ctx.replay(identity_, key, fn);
}

State NetworkDriver::load(ExecContext& ctx, const ShardContext& shard,
                          std::span<const Boundary> boundaries) const {
  State state;
  for (std::size_t i = 0; i < boundaries.front().size(); ++i) {
    std::vector<Tensor> rows;
    for (const Boundary& boundary : boundaries) {
      const RowRange range = network_->own(shard, boundary[i].tensor.dim(0));
      rows.push_back(boundary[i].tensor.slice(range.begin, range.end));
    }
    const Tensor all = stack_rows(ctx, rows);
    if (boundaries.front()[i].name.starts_with(kSkip)) {
      state.skips.push_back(all);
      continue;
    }
    const auto& kinds = network_->layout().streams;
    const auto kind =
        std::ranges::find(kinds, boundaries.front()[i].name, &StreamKind::name);
    require(kind != kinds.end(), Errc::shape_mismatch, place_,
            "boundary: got " + boundaries.front()[i].name +
                ", which is no stream of the network");
    state.streams.push_back({kind->name, all});
  }
  const std::string_view first = network_->layout().streams[0].name;
  if (state.streams.empty() || state.streams[0].name != first) {
    require(!state.skips.empty(), Errc::shape_mismatch, place_,
            "boundary: got no " + std::string(first));
    state.streams.insert(state.streams.begin(), {first, state.skips.back()});
  }
  return state;
}

Boundary NetworkDriver::named(const State& state, int first_skip) const {
  Boundary tensors;
  for (const Tensor& skip : state.skips) {
    tensors.push_back(
        {std::string(kSkip) + std::to_string(first_skip++), skip});
  }
  for (const Stream& stream : state.streams) {
    const bool is_skip = !state.skips.empty() &&
                         &stream == &state.streams.front() &&
                         is_same(stream.x, state.skips.back());
    if (!is_skip) {
      tensors.push_back({std::string(stream.name), stream.x});
    }
  }
  return tensors;
}

}  // namespace troupe::models
