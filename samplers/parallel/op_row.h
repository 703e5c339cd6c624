#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

// What a task computes: one row for each op. To add one: see README.md.

namespace troupe::samplers {

struct BoundTask;
struct OpRun;
struct Task;

/// What a slot holds.
enum class ValueKind : std::uint8_t {
  state,
  output,    ///< of the network
  boundary,  ///< from one segment to the next
  skips,     ///< that a segment keeps for its mirror
  pixels,
  cache  ///< of an evaluation, for later ones: what blocks added
};
inline constexpr std::size_t kNumValueKinds = 6;

/// Where a worker's time goes.
enum class Work : std::uint8_t {
  tensors,  ///< simple arithmetic: no time worth counting
  decoder,  ///< a pass through the decoder
  segment,  ///< a pass through the task's segment of the network
  network   ///< a pass through the whole network
};

/// How many of them a task has.
struct Limits {
  std::size_t least = 0;
  std::size_t most = 0;
};
/// Of a task.
inline constexpr std::size_t kMostCoefficients = 4;
/// As Limits::most of outputs: the number of model calls that are left.
inline constexpr std::size_t kOneForEachCall = ~std::size_t{0};

/// The slots that a task reads or writes, in their order. What the first
/// segment reads in place of a boundary is a state, and what the last segment
/// writes there is an output.
struct OpSlots {
  Limits number;
  /// Slots after these six are of the sixth kind.
  std::array<ValueKind, 6> kinds = {};
};

/// The places of a solver step in its task's slots.
struct StepPlaces {
  std::size_t state = 0;                         ///< an input
  std::optional<std::size_t> model_output = {};  ///< an input; none: output 0
  std::size_t next_state = 0;  ///< an output; a task without it takes no step
  /// An input: an older value of `state`. The state is final only if both are
  /// one slot. None: it is always final.
  std::optional<std::size_t> old_state = {};
};

using OpTasks = std::span<const BoundTask* const>;

/// All that methods, coordinator and workers know of an op.
struct OpRow {
  /// In traces and in the simulator's symbols.
  std::string_view name;
  OpSlots inputs;
  OpSlots outputs;
  /// Of a task's coefficients; at most kMostCoefficients.
  Limits coefficients = {};
  /// Scalars of a task's result.
  std::size_t scalars = 0;
  /// Instead, one for each input above the least number.
  bool has_scalars_of_inputs = false;
  /// None: it never takes a solver step.
  std::optional<StepPlaces> step = {};
  Work work = Work::tensors;
  /// Any worker of the sample's execution class may run it if the method says
  /// so, too. Otherwise it belongs to the worker of the task's part.
  bool spreads = false;
  /// It may leave out blocks of the network: a first scalar of 1 says that it
  /// did.
  bool may_reuse = false;
  /// Any worker that shares the memory of the part's worker may run it: the
  /// weights that it reads are there.
  bool stays_beside = false;
  /// Queues tasks: several of one pass if `joins`, else one. Errors: those of
  /// the evaluator; Errc::internal for a slot that is empty or holds another
  /// kind. Thread: that of the OpRun's context.
  void (*run)(const OpRun&, OpTasks);

  /// It takes a worker for long.
  [[nodiscard]] constexpr bool is_heavy() const noexcept {
    return work != Work::tensors;
  }
  /// It goes through the network. Tasks of one op and segment share a pass.
  [[nodiscard]] constexpr bool joins() const noexcept {
    return work == Work::segment || work == Work::network;
  }
};

void run_evaluate(const OpRun& run, OpTasks tasks);
void run_evaluate_cached(const OpRun& run, OpTasks tasks);
void run_segment(const OpRun& run, OpTasks tasks);
void run_combine(const OpRun& run, OpTasks tasks);
void run_step(const OpRun& run, OpTasks tasks);
void run_jump(const OpRun& run, OpTasks tasks);
void run_carry(const OpRun& run, OpTasks tasks);
void run_coast(const OpRun& run, OpTasks tasks);
void run_residual(const OpRun& run, OpTasks tasks);
void run_mix(const OpRun& run, OpTasks tasks);
void run_verify(const OpRun& run, OpTasks tasks);
void run_sweep(const OpRun& run, OpTasks tasks);
void run_guess(const OpRun& run, OpTasks tasks);
void run_decode(const OpRun& run, OpTasks tasks);

/// In messages and snapshots an op is its place here.
inline constexpr auto kOpTable = [] {
  using enum ValueKind;
  return std::to_array<OpRow>(
      {// A second output is the next state: no wait between the two.
       {.name = "evaluate",
        .inputs = {{1, 1}, {state}},
        .outputs = {{1, 2}, {output, state}},
        .step = StepPlaces{.state = 0, .next_state = 1},
        .work = Work::network,
        .spreads = true,
        .run = run_evaluate},
       // Of an onion, a segment reads or writes skips, too.
       {.name = "segment",
        .inputs = {{1, 2}, {boundary, skips}},
        .outputs = {{1, 2}, {boundary, skips}},
        .work = Work::segment,
        .run = run_segment},
       // The two branches of guidance, and as with evaluate a step.
       {.name = "combine",
        .inputs = {{2, 3}, {output, output, state}},
        .outputs = {{1, 2}, {output, state}},
        .step = StepPlaces{.state = 2, .next_state = 1},
        .run = run_combine},
       // A third input is the draft that the network saw in the state's place.
       {.name = "step",
        .inputs = {{2, 3}, {state, output, state}},
        .outputs = {{1, 1}, {state}},
        .step = StepPlaces{.state = 0, .model_output = 1, .next_state = 0},
        .run = run_step},
       // One Picard update of a point. In: the state of point `from` as its
       // round has made it, and as it was before; the state of point `to` as it
       // was before; the model output; and for guesses that follow a line, the
       // state and the model output of the round's first point, whose number is
       // a third coefficient. Out: the state of point `to`, and guesses for as
       // many points as outputs are left. The first point of a round has one
       // state. Coefficients: `sweep_coefficients`. Scalars: rms(new − old) ÷
       // the accept rule's scale, and 1 if every byte stayed the same.
       {.name = "sweep",
        .inputs = {{4, 6}, {state, state, state, output, state, output}},
        .outputs = {{1, kOneForEachCall}, {}},
        .coefficients = {2, 3},
        .scalars = 2,
        .step =
            StepPlaces{
                .state = 0, .model_output = 3, .next_state = 0, .old_state = 1},
        .run = run_sweep},
       // A final state to pixels, as bytes.
       {.name = "decode",
        .inputs = {{1, 1}, {state}},
        .outputs = {{1, 1}, {pixels}},
        .work = Work::decoder,
        .stays_beside = true,
        .run = run_decode},
       // From point `from` to point `to` as if the clean sample stayed the
       // same: a state without history. A multistep solver's own jump would
       // extrapolate from outputs of drafts: 20 steps of DPM++ 2M in windows of
       // four end 0.97 (relative RMSE) from the sequential run.
       {.name = "jump",
        .inputs = {{2, 2}, {state, output}},
        .outputs = {{1, 1}, {state}},
        .run = run_jump},
       // x + (a − b), with the history of x. All three are finite, which the
       // steps that made them have looked at.
       {.name = "carry",
        .inputs = {{3, 3}, {state, state, state}},
        .outputs = {{1, 1}, {state}},
        .run = run_carry},
       // From the state of point `from` by the solver's own steps, as if the
       // clean sample stayed that of an earlier evaluation (OpRun::coast). In:
       // that state; the latents that the network saw, and its output. Out: the
       // last points up to `to`, without history. Coefficient: the call of the
       // evaluation.
       {.name = "coast",
        .inputs = {{3, 3}, {state, state, output}},
        .outputs = {{1, kOneForEachCall}, {}},
        .coefficients = {1, 1},
        .run = run_coast},
       // new − old, of two states of a point. More inputs are earlier residuals
       // of the point. Scalars: the mean squares of its differences from them.
       {.name = "residual",
        .inputs = {{2, 6}, {}},
        .outputs = {{1, 1}, {state}},
        .has_scalars_of_inputs = true,
        .run = run_residual},
       // x_0 + Σ c_i · (x_i − x_0), where x_i has other bytes than x_0: a state
       // without history. Coefficients: c_1, …
       {.name = "mix",
        .inputs = {{2, 1 + kMostCoefficients}, {}},
        .outputs = {{1, 1}, {state}},
        .coefficients = {1, kMostCoefficients},
        .run = run_mix},
       // A step whose result may be a draft of the next point. Inputs: the
       // point; the draft of it that the network was given; the network's
       // output; the draft of the next point, if there is one. The output is
       // the next point. It has the distribution of the step's result. The
       // scalar is 1 if the next point is its draft or had none, else 0. If the
       // point is not its own draft, the network's output is of no use: then
       // the point itself is the output, and the scalar is 0.
       {.name = "verify",
        .inputs = {{3, 4}, {state, state, output, state}},
        .outputs = {{1, 1}, {state}},
        .scalars = 1,
        .step =
            StepPlaces{
                .state = 0, .model_output = 2, .next_state = 0, .old_state = 1},
        .run = run_verify},
       // Guesses of the points from `from` + 1 up to `to`: those of the job's
       // trajectory (NoiseSource::guess), moved by what the state of point
       // `from` differs from the trajectory's. In: that state.
       {.name = "guess",
        .inputs = {{1, 1}, {state}},
        .outputs = {{1, kOneForEachCall}, {}},
        .run = run_guess},
       // As evaluate. A second input is the cache that an earlier evaluation
       // left, which may stand in for blocks of the network; without it all
       // blocks run. A second output is the new cache. The
       // coefficient is the threshold (CachedRow). The scalar is 1 if the cache
       // stood in, else 0.
       {.name = "evaluate_cached",
        .inputs = {{1, 2}, {state, cache}},
        .outputs = {{1, 3}, {output, cache, state}},
        .coefficients = {1, 1},
        .scalars = 1,
        .step = StepPlaces{.state = 0, .next_state = 2},
        .work = Work::network,
        .spreads = true,
        .may_reuse = true,
        .run = run_evaluate_cached}});
}();

/// What a task computes: a row, which lives as long as the program.
class Op {
 public:
  /// The first of the table.
  constexpr Op() noexcept : Op(kOpTable.front()) {}
  constexpr explicit Op(const OpRow& row) noexcept : row_(&row) {}
  [[nodiscard]] constexpr const OpRow* operator->() const noexcept {
    return row_;
  }
  /// Its place in the table.
  /// Errors: Errc::internal for a row that is not in the table.
  [[nodiscard]] std::uint32_t number() const;

  bool operator==(const Op&) const = default;
  /// Of rows of the table, their order.
  friend bool operator<(Op a, Op b) noexcept {
    return std::compare_three_way()(a.row_, b.row_) < 0;
  }

  static const Op evaluate, segment, combine, step, sweep, decode, jump, carry,
      coast, residual, mix, verify, guess, evaluate_cached;

 private:
  const OpRow* row_;
};

/// The compiler refuses a name that the table has not.
consteval Op op_named(std::string_view name) {
  for (const OpRow& row : kOpTable) {
    if (row.name == name) {
      return Op(row);
    }
  }
  throw "no such op";
}

inline constexpr Op Op::evaluate = op_named("evaluate");
inline constexpr Op Op::segment = op_named("segment");
inline constexpr Op Op::combine = op_named("combine");
inline constexpr Op Op::step = op_named("step");
inline constexpr Op Op::sweep = op_named("sweep");
inline constexpr Op Op::decode = op_named("decode");
inline constexpr Op Op::jump = op_named("jump");
inline constexpr Op Op::carry = op_named("carry");
inline constexpr Op Op::coast = op_named("coast");
inline constexpr Op Op::residual = op_named("residual");
inline constexpr Op Op::mix = op_named("mix");
inline constexpr Op Op::verify = op_named("verify");
inline constexpr Op Op::guess = op_named("guess");
inline constexpr Op Op::evaluate_cached = op_named("evaluate_cached");

}  // namespace troupe::samplers
