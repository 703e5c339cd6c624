// Overlapped rounds against a plain loop with a barrier per round: the same
// bytes, evaluations and rounds, whatever the order of arrival.

#include "tests/parallel/picard_barrier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>

#include "kernels/elementwise.h"
#include "kernels/reduction.h"
#include "samplers/parallel/op_run.h"
#include "tests/parallel/simulator.h"
#include "tests/parallel/support.h"
#include "tests/simulator/symbols.h"

namespace troupe::samplers::testing {
namespace {

using actors::simulator::compute;
using actors::simulator::Symbol;
using actors::simulator::SymbolTable;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kOrders = 50;  // it takes twenty times as long there
#else
constexpr std::uint64_t kOrders = 1000;
#endif

/// Symbolic values: equal if and only if they were made in the same way.
class Symbols {
 public:
  using State = Symbol;
  using Output = Symbol;

  Symbols(std::uint64_t sample, const MethodOptions& options,
          const Schedule& schedule)
      : sample_(sample), options_(options), schedule_(schedule) {}

  Output evaluate(int call, State state) const {
    return made({.op = Op::evaluate,
                 .from = call,
                 .to = call + 1,
                 .timestep_call = call,
                 .inputs = {1},
                 .outputs = {2}},
                {state})
        .outputs.at(0);
  }
  BarrierPoint<State> sweep(int call, bool /*is_first*/, State left, State here,
                            State next, Output output) {
    Task task{.op = Op::sweep,
              .from = call,
              .to = call + 1,
              .inputs = {1, 2, 3, 4},
              .outputs = {5},
              .coefficients = sweep_coefficients(options_, schedule_, call)};
    for (int guess = 0; guess < options_.window_size &&
                        call + 1 + guess < schedule_.num_model_calls();
         ++guess) {
      task.outputs.push_back(6 + static_cast<Slot>(guess));
    }
    last_ = task;
    inputs_ = {left, here, next, output};
    const auto swept = made(task, inputs_);
    return {swept.outputs[0], swept.result.scalars[0],
            swept.result.scalars[1] != 0};
  }
  State guess(int point, int first_call, State first, Output first_output,
              int evaluated, State /*last*/, State /*there*/,
              Output /*output*/) const {
    Task task = last_;
    std::vector<Symbol> inputs = inputs_;
    if (options_.initial_guess == InitialGuess::linear_x0 &&
        first_call < evaluated) {
      for (const Symbol more : {first, first_output}) {
        task.inputs.push_back(1000 + static_cast<Slot>(inputs.size()));
        inputs.push_back(more);
      }
      task.coefficients.push_back(first_call);
    }
    return made(task, inputs)
        .outputs.at(static_cast<std::size_t>(point - evaluated - 1));
  }
  State given_guess(int point, int from, State last) const {
    const int calls = schedule_.num_model_calls();
    Task task{.op = Op::guess,
              .from = from,
              .to = std::min(from + options_.window_size, calls),
              .timestep_call = from,
              .inputs = {1}};
    while (static_cast<int>(task.outputs.size()) < task.to - from) {
      task.outputs.push_back(2 + static_cast<Slot>(task.outputs.size()));
    }
    return made(task, {last})
        .outputs.at(static_cast<std::size_t>(point - from - 1));
  }

 private:
  actors::simulator::SymbolicResult made(const Task& task,
                                         const std::vector<Symbol>& in) const {
    SymbolTable table(sample_);
    for (std::size_t i = 0; i < in.size(); ++i) {
      EXPECT_TRUE(table.put(task.inputs[i], in[i]));
    }
    return compute(task, table, options_).value();
  }

  std::uint64_t sample_;
  const MethodOptions& options_;
  const Schedule& schedule_;
  Task last_;                   ///< sweep
  std::vector<Symbol> inputs_;  ///< its
};

/// A run in which tasks are done and results arrive in any order.
class AnyArrival {
 public:
  AnyArrival(const MethodOptions& options, const Schedule& schedule,
             std::uint64_t sample, std::uint64_t seed)
      : options_(options),
        method_(make_method(options, schedule)),
        table_(sample),
        random_(seed),
        // Some orders are greedy, others keep much under way.
        work_share_(1 + below(9)) {}

  void run() {
    while (!method_->done()) {
      hand_out(below(2) == 0 ? kNothingAhead : 1 + below(40));
      const bool works = static_cast<int>(below(10)) < work_share_;
      ASSERT_TRUE(works ? work() || deliver() : deliver() || work());
    }
  }
  [[nodiscard]] Symbol result() {
    return table_.find(method_->result_slot()).value();
  }
  [[nodiscard]] Progress progress() const { return method_->progress(); }
  [[nodiscard]] bool has_overlapped() const { return has_overlapped_; }

 private:
  int below(int bound) {
    return static_cast<int>(random_() % static_cast<std::uint64_t>(bound));
  }

  /// With a barrier no evaluation is handed out while others of an earlier time
  /// wait: those of one round come at once.
  void hand_out(int most_open) {
    const auto is_evaluation = [](const Task& task) {
      return task.op == Op::evaluate;
    };
    const bool some_wait = std::ranges::any_of(waiting_, is_evaluation);
    for (Task& task : method_->ready(most_open)) {
      has_overlapped_ = has_overlapped_ || (some_wait && is_evaluation(task));
      waiting_.push_back(std::move(task));
    }
  }

  bool work() {
    std::vector<std::size_t> can_run;
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (std::ranges::all_of(waiting_[i].inputs, [&](Slot slot) {
            return table_.find(slot).has_value();
          })) {
        can_run.push_back(i);
      }
    }
    if (can_run.empty()) {
      return false;
    }
    const std::size_t i = can_run[static_cast<std::size_t>(
        below(static_cast<int>(can_run.size())))];
    const auto made = compute(waiting_[i], table_, options_);
    for (std::size_t k = 0; k < made->outputs.size(); ++k) {
      EXPECT_TRUE(table_.put(waiting_[i].outputs[k], made->outputs[k]));
    }
    in_flight_.push_back(made->result);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  }

  bool deliver() {
    if (in_flight_.empty()) {
      return false;
    }
    std::swap(in_flight_[static_cast<std::size_t>(
                  below(static_cast<int>(in_flight_.size())))],
              in_flight_.back());
    const TaskResult result = std::move(in_flight_.back());
    in_flight_.pop_back();
    const auto dead = method_->apply(result);
    EXPECT_TRUE(dead.has_value());
    EXPECT_TRUE(table_.erase(dead.value())) << "a slot died twice";
    return true;
  }

  const MethodOptions& options_;
  std::unique_ptr<Method> method_;
  SymbolTable table_;
  std::mt19937_64 random_;
  int work_share_;
  std::vector<Task> waiting_;
  std::vector<TaskResult> in_flight_;
  bool has_overlapped_ = false;
};

std::vector<MethodOptions> rules(int window) {
  std::vector<MethodOptions> all;
  for (const Accept accept : {Accept::first_failing, Accept::settled}) {
    for (const InitialGuess guess :
         {InitialGuess::last_point, InitialGuess::constant_x0,
          InitialGuess::linear_x0, InitialGuess::trajectory}) {
      for (const double tolerance : {0.0, 0.1}) {
        all.push_back(picard(window, tolerance, guess));
        all.back().accept = accept;
      }
    }
  }
  return all;
}

TEST(Rounds, OverlapInAnyOrderWithTheValuesOfOneAfterTheOther) {
  constexpr std::uint64_t kIndex = 5;
  for (const int calls : {1, 10}) {
    const Schedule schedule(steps(calls));
    for (const int window : {1, 4, 10}) {
      for (const MethodOptions& options : rules(std::min(window, calls))) {
        Symbols network(kIndex, options, schedule);
        const Symbol start = SymbolTable(kIndex).find(kInitialSlot).value();
        const auto plain = Barrier(options, calls, network, start).run();
        bool has_overlapped = false;
        for (std::uint64_t seed = 0; seed < kOrders; ++seed) {
          AnyArrival run(options, schedule, kIndex, seed);
          run.run();
          ASSERT_EQ(run.result(), plain.state) << window << ", seed " << seed;
          ASSERT_EQ(run.progress().nfe, plain.nfe);
          ASSERT_EQ(run.progress().rounds, plain.rounds);
          has_overlapped = has_overlapped || run.has_overlapped();
        }
        // Otherwise nothing was shown.
        EXPECT_EQ(has_overlapped, window > 1 && calls > 1) << window;
      }
    }
  }
}

/// Real tensors, with the formula written out.
class Tensors {
 public:
  using State = SolverState;
  using Output = Tensor;

  Tensors(Bench& bench, const MethodOptions& options, std::uint64_t sample)
      : bench_(bench), options_(options), sample_(sample) {}

  Output evaluate(int call, const State& state) {
    std::vector<EvaluateRow> rows(1);
    rows[0].sample_index = sample_;
    rows[0].timestep = bench_.schedule.timestep(call);
    rows[0].latents =
        scale_model_input(bench_.ctx, bench_.schedule, call, state.latents);
    rows[0].output = Tensor(with_channels(bench_.evaluator.latent_shape(),
                                          bench_.evaluator.out_channels()),
                            DType::f32);
    bench_.evaluator.evaluate(bench_.ctx, rows);
    return rows[0].output;
  }
  BarrierPoint<State> sweep(int call, bool is_first, const State& left,
                            const State& here, const State& next,
                            const Output& output) {
    State state = left;
    state.latents = here.latents;
    state = step(bench_.ctx, bench_.schedule, call, call + 1, state, output,
                 sample_, bench_.noise);
    if (!is_first && !bytes_equal(left.latents, here.latents)) {
      const auto carry = static_cast<float>(carry_of(call));
      for (std::size_t i = 0; i < state.latents.span<float>().size(); ++i) {
        const float moved =
            left.latents.span<float>()[i] - here.latents.span<float>()[i];
        const float carried = carry * moved;
        state.latents.span<float>()[i] += carried;
      }
    }
    const double scale = options_.accept == Accept::settled
                             ? settled_scale(bench_.schedule, call + 1)
                             : bench_.schedule.residual_scale(call + 1);
    return {state, rmse(state.latents, next.latents) / scale,
            bytes_equal(state.latents, next.latents)};
  }
  State guess(int point, int first_call, const State& first,
              const Output& first_output, int evaluated, const State& last,
              const State& there, const Output& output) {
    if (options_.initial_guess == InitialGuess::linear_x0) {
      return on_line(point, first_call, first, first_output, evaluated, last,
                     there, output);
    }
    State guess;
    guess.latents = options_.initial_guess == InitialGuess::last_point
                        ? last.latents
                        : extrapolate(bench_.ctx, bench_.schedule, evaluated,
                                      point, there.latents, output);
    return guess;
  }
  State given_guess(int point, int from, const State& last) {
    const auto known = [&](int at) {
      Tensor latents = last.latents.clone();
      bench_.noise.guess(sample_, at, latents);
      return latents;
    };
    State guess;
    guess.latents = known(point);
    const auto level = [&](int at) {
      return at == 0 ? bench_.schedule.level(0) : bench_.schedule.arrival(at);
    };
    const auto scale =
        static_cast<float>(deviation(level(point)) / deviation(level(from)));
    const Tensor there = known(from);
    for (std::size_t i = 0; i < guess.latents.span<float>().size(); ++i) {
      const float moved =
          last.latents.span<float>()[i] - there.span<float>()[i];
      const float carried = scale * moved;
      guess.latents.span<float>()[i] += carried;
    }
    return guess;
  }

 private:
  /// The solver's own steps from `last`, with the clean samples of the line.
  State on_line(int point, int first_call, const State& first,
                const Output& first_output, int evaluated, const State& last,
                const State& there, const Output& output) {
    ExecContext& ctx = bench_.ctx;
    const auto clean_at = [&](int call, const State& at, const Output& m) {
      return denoised(ctx, bench_.schedule, call, at.latents, m);
    };
    State state = last;
    for (int call = evaluated + 1; call < point; ++call) {
      Tensor clean = clean_at(evaluated, there, output).clone();
      if (first_call < evaluated) {
        const double ahead =
            static_cast<double>(call - evaluated) / (evaluated - first_call);
        const Tensor from = clean_at(first_call, first, first_output);
        const kernels::Term line[] = {{1 + ahead, &clean}, {-ahead, &from}};
        kernels::combine(ctx, line, clean);
      }
      state = step(
          ctx, bench_.schedule, call, call + 1, state,
          output_for(ctx, bench_.schedule, call, state.latents, clean, output),
          sample_, bench_.noise);
    }
    State guess;
    guess.latents = state.latents;
    return guess;
  }
  static double deviation(const NoiseLevel& level) {
    return std::sqrt(level.alpha * level.alpha + level.sigma * level.sigma);
  }
  double carry_of(int call) const {
    switch (options_.carry) {
      case Carry::coefficient:
        return carry_coefficient(bench_.schedule, call, call + 1);
      case Carry::deviation:
        if (bench_.schedule.options().solver->begins_at_anchor) {
          return 0.0;
        }
        return deviation(bench_.schedule.arrival(call + 1)) /
               deviation(bench_.schedule.level(call));
      case Carry::identity:
        break;
    }
    return 1.0;
  }

  Bench& bench_;
  const MethodOptions& options_;
  std::uint64_t sample_;
};

TEST(Rounds, GiveTheBytesOfOneAfterTheOtherWithEverySolverAndRule) {
  constexpr std::uint64_t kIndex = 4;
  std::uint64_t seed = 0;
  for (const SolverCase& solver : solver_cases(11)) {
    Bench bench(solver.options);
    for (MethodOptions options : rules(6)) {
      for (const Carry carry :
           {Carry::identity, Carry::coefficient, Carry::deviation}) {
        options.carry = carry;
        Tensors network(bench, options, kIndex);
        const auto plain =
            Barrier(options, bench.calls(), network, bench.start(kIndex)).run();
        TaskRunner runner(bench.schedule, bench.evaluator, bench.noise,
                          options);
        Simulator simulator(runner, bench.ctx, 3, ++seed);
        simulator.add(kIndex, make_method(options, bench.schedule),
                      bench.start(kIndex));
        simulator.run();
        ASSERT_TRUE(bytes_equal(simulator.latents(0), plain.state.latents))
            << solver.name << ", seed " << seed;
        ASSERT_EQ(simulator.method(0).progress().nfe, plain.nfe);
        ASSERT_EQ(simulator.method(0).progress().rounds, plain.rounds);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
