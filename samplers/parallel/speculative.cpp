#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/polynomials.h"
#include "samplers/parallel/check_range.h"
#include "samplers/parallel/op_run.h"
#include "samplers/parallel/task_book.h"
#include "samplers/step_arithmetic.h"

namespace troupe::samplers {
namespace {

/// Autospeculative sampling (README.md). The true steps are taken from left to
/// right (Op::verify), and drafts behind the first that is not accepted are
/// dropped. So a round gives between one point and a window.
///
/// The steps, their noise and the numbers that decide are named by sample and
/// call, and a round begins when all tasks of the round before are done: so
/// bytes, evaluations and rounds do not depend on the order of arrival.
/// Source: ASD, arXiv:2505.03983, with reflection maximal coupling as in
/// arXiv:2501.05370.
class Speculative final : public BookedMethod {
 public:
  Speculative(const MethodOptions& options, const Schedule& schedule)
      : BookedMethod(schedule.num_model_calls()),
        window_size_(options.window_size) {}

  [[nodiscard]] std::vector<Task> ready(int max_open) override {
    if (round_.empty()) {
      begin_round();
    }
    return book_.take(max_open);
  }
  [[nodiscard]] int accepted() const override {
    return begin_ + static_cast<int>(num_final());
  }
  [[nodiscard]] Slot result_slot() const override {
    const std::size_t count = num_final();
    return count == 0 ? result_ : round_[count - 1].next;
  }
  [[nodiscard]] std::string snapshot() const override {
    ByteWriter out(MethodKind::speculative, {num_calls_, window_size_});
    transfer(out, *this);
    return out.take();
  }

  void restore(const std::string& bytes) override {
    ByteReader in(bytes, MethodKind::speculative, {num_calls_, window_size_});
    transfer(in, *this);
    in.expect_end();
    const bool is_whole =
        book_.has_open() == !round_.empty() &&
        (round_.empty() || round_.size() == round_size()) &&
        book_.has_slots(kept_slots()) &&
        std::ranges::all_of(round_, [this](const Point& point) {
          return book_.has_given(point.evaluation) &&
                 book_.has_given(point.verification);
        });
    require(is_whole, Errc::corrupt_file, "snapshot",
            "has a round that cannot be");
  }

 private:
  /// One point of the round.
  struct Point {
    Slot draft = 0;   ///< of the first, the point itself
    Slot output = 0;  ///< of the network there
    Slot next = 0;    ///< the point after it, if all drafts before are accepted
    std::uint64_t evaluation = 0;
    std::uint64_t verification = 0;
    bool passes = false;  ///< the next point is its draft
  };

  /// Points of the round from begin_ on.
  [[nodiscard]] std::size_t round_size() const {
    // Nothing is known before the first evaluation.
    return static_cast<std::size_t>(
        begin_ == 0 ? 1 : std::min(window_size_, num_calls_ - begin_));
  }

  /// Points of the round, beside begin_, that no later task changes: a
  /// verification's result is final once all before it have passed.
  [[nodiscard]] std::size_t num_final() const {
    std::size_t count = 0;
    while (count < round_.size() &&
           !book_.is_open(round_[count].verification) &&
           (count == 0 || round_[count - 1].passes)) {
      ++count;
    }
    return count;
  }

  void begin_round() {
    if (done()) {
      return;
    }
    ++num_rounds_;
    round_.resize(round_size());
    const int count = static_cast<int>(round_.size());
    round_[0].draft = result_;
    if (count > 1) {
      Task drafts = task_of(Op::coast, begin_, begin_ + count - 1,
                            {result_, last_state_, last_output_});
      drafts.coefficients = {static_cast<double>(begin_ - 1)};
      drafts.is_on_chain = false;
      for (std::size_t i = 1; i < round_.size(); ++i) {
        round_[i].draft = book_.add_output(drafts);
      }
      book_.add(std::move(drafts));
    }
    evaluations_ += count;
    int call = begin_;
    for (Point& point : round_) {
      Task evaluate = task_of(Op::evaluate, call, call + 1, {point.draft});
      point.output = book_.add_output(evaluate);
      point.evaluation = book_.add(std::move(evaluate));
      ++call;
    }
    Slot here = result_;
    call = begin_;
    for (std::size_t i = 0; i < round_.size(); ++i, ++call) {
      Point& point = round_[i];
      Task verify = task_of(Op::verify, call, call + 1,
                            {here, point.draft, point.output});
      if (i + 1 < round_.size()) {
        verify.inputs.push_back(round_[i + 1].draft);
      }
      point.next = book_.add_output(verify);
      point.verification = book_.add(std::move(verify));
      here = point.next;
    }
  }

  void advance(const Task& done, const std::vector<double>& scalars) override {
    if (done.op == Op::verify) {
      require(scalars.size() == 1, Errc::internal, "speculative",
              "a verification came back without its scalar");
      const auto point =
          std::ranges::find(round_, done.id, &Point::verification);
      require(point != round_.end(), Errc::corrupt_file, "speculative",
              "a verification of another round");
      point->passes = scalars[0] != 0;
    }
    if (!book_.has_open()) {
      end_round();
    }
  }

  /// What is left of the round is the newest point, and what the next drafts
  /// are made of: the point before it and the network's output there.
  void end_round() {
    const auto last =
        std::find_if(round_.begin(), round_.end() - 1,
                     [](const Point& point) { return !point.passes; });
    const Slot state = last == round_.begin() ? result_ : std::prev(last)->next;
    begin_ += static_cast<int>(last - round_.begin()) + 1;
    result_ = last->next;
    last_state_ = state;
    last_output_ = last->output;
    round_.clear();
    begin_round();
  }

  [[nodiscard]] std::vector<Slot> kept_slots() const override {
    std::vector<Slot> kept = {result_};
    if (begin_ > 0 && !done()) {
      kept.insert(kept.end(), {last_state_, last_output_});
    }
    for (const Point& point : round_) {
      kept.insert(kept.end(), {point.draft, point.output, point.next});
    }
    return kept;
  }

  [[nodiscard]] std::int64_t num_missing() const override {
    // Once a verification's result is there, the evaluation that it reads has
    // run.
    return std::ranges::count_if(round_, [this](const Point& point) {
      return book_.is_open(point.verification) &&
             book_.is_open(point.evaluation);
    });
  }

  /// Writes or reads it all.
  template <typename Bytes, typename Self>
  static void transfer(Bytes& bytes, Self& self) {
    bytes.length(self.round_);
    bytes.number(self.begin_, self.num_calls_);
    transfer_all(bytes, self.result_, self.last_state_, self.last_output_,
                 self.evaluations_, self.num_rounds_);
    for (auto& point : self.round_) {
      transfer_all(bytes, point.draft, point.output, point.next,
                   point.evaluation, point.verification, point.passes);
    }
    self.book_.transfer(bytes);
  }

  int window_size_;
  // Of the point before begin_, unless that is 0: what drafts are made of.
  Slot last_state_ = 0;
  Slot last_output_ = 0;
  std::vector<Point> round_;
};

std::unique_ptr<Method> make_speculative(const MethodOptions& options,
                                         const Schedule& schedule) {
  check_window(options, schedule.num_model_calls());
  return std::make_unique<Speculative>(options, schedule);
}

/// Drafts are judged by the noise of their steps.
void check_speculative_schedule(const MethodOptions& /*options*/,
                                const Schedule& schedule) {
  const bool is_learned = learns_variance(schedule.options());
  require(schedule.is_stochastic() && !is_learned, Errc::unsupported, "method",
          std::string("speculative needs a sampler ") +
              (is_learned ? "whose noise the network does not scale"
                          : "that draws noise in its steps"),
          "use --sampler ddpm, euler-ancestral or ddim with --eta 1, or "
          "--method picard");
}

/// As sequential or faster; every round a whole window if no draft passes.
double speculative_tasks(const MethodOptions& options, int num_calls) {
  return (2.0 * rows_of_window(options) + 1) * num_calls;
}

/// Drafts and the points that are made of them, with the two that the drafts
/// begin at.
LiveValues speculative_live(const MethodOptions& options, int num_calls,
                            int /*max_open*/) {
  const int window = std::min(rows_of_window(options), num_calls);
  return {.states = 2 * window + 1, .outputs = window + 1};
}

/// Whether a draft is accepted in place of what the step made.
struct Judgement {
  bool passes = false;
  /// Of a draft that does not pass: the step's result goes on by so many times
  /// the draft's difference from it.
  double reflection = 0.0;
};

/// To 20 bits. Devices add squares in different orders. So they nearly always
/// get the same number, but not where it lies beside the border of two.
double rounded(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::round(std::ldexp(mantissa, 20)), exponent - 20);
}

/// n is the step's unit noise and z = (draft − stepped) ÷ deviation, the
/// distance between the means of draft and step. With φ the standard normal
/// density the draft passes with probability min(1, φ(n + z) ÷ φ(n)). Otherwise
/// n is reflected in the plane across z. A draft that is not finite does not
/// pass, and the step's result stays.
Judgement judge(const OpRun& run, const BoundTask& bound, const Tensor& stepped,
                const Tensor& draft) {
  ExecContext& ctx = run.ctx;
  const Workspace::Scope scope(ctx.workspace());
  const double deviation =
      step_deviation(run.schedule, bound.task.from, bound.task.to);
  kernels::Readings readings(ctx, 4);
  const std::size_t same = readings.bytes_equal(draft, stepped);
  if (deviation <= 0) {
    return {.passes = readings.wait()[same] != 0.0};
  }
  Tensor noise(draft.shape(), DType::f32);
  run.noise.step(bound.sample_index, bound.task.from, noise);
  noise = kernels::borrow(ctx, noise);
  // First the difference: scaled terms would round before they cancel.
  const Tensor difference =
      weighted_sum(ctx, Memory::scratch, {{1, &draft}, {-1, &stepped}});
  const Tensor shift =
      weighted_sum(ctx, Memory::scratch, {{1 / deviation, &difference}});
  const Tensor opposite = weighted_sum(ctx, Memory::scratch, {{-1, &shift}});
  readings.sum_squares(shift);
  readings.sum_squared_difference(noise, shift);
  readings.sum_squared_difference(noise, opposite);
  const auto values = readings.wait();
  const double square = rounded(values[1]);                     // |z|²
  const double product = rounded((values[3] - values[2]) / 4);  // z · n
  if (values[same] != 0.0) {
    return {.passes = true};
  }
  if (!std::isfinite(square) || !std::isfinite(product)) {
    return {};
  }
  const double log_ratio = -product - square / 2;
  const double uniform = run.noise.uniform(bound.sample_index, bound.task.from);
  if (detail::log_positive(uniform) < log_ratio) {
    return {.passes = true};
  }
  return {.reflection = -2 * product / square};
}

}  // namespace

void run_verify(const OpRun& run, OpTasks tasks) {
  const BoundTask& bound = *tasks.front();
  const Task& task = bound.task;
  const SolverState before = run.state(bound, task.inputs.at(0));
  kernels::Readings readings(run.ctx, 1);
  readings.bytes_equal(before.latents, run.latents(bound, 1));
  const bool is_drafts = readings.wait()[0] != 0.0;
  bool passes = is_drafts;
  SolverState next = before;
  if (is_drafts) {
    next = step(run.ctx, run.schedule, task.from, task.to, before,
                run.tensor(bound, 2), bound.sample_index, run.noise);
    if (task.inputs.size() > 3) {
      const Tensor draft = run.latents(bound, 3);
      const Judgement judgement = judge(run, bound, next.latents, draft);
      passes = judgement.passes;
      if (passes) {
        next.latents = draft;
      } else if (judgement.reflection != 0) {
        const Tensor stepped = next.latents;
        next.latents = run.ctx.empty(stepped.shape(), stepped.dtype());
        kernels::add_carry(run.ctx, stepped, judgement.reflection, draft,
                           stepped, next.latents);
      }
    }
    run.expect_finite(bound, before.latents, next);
  }
  run.write_state(bound, task.outputs.at(0), task.to, std::move(next));
  run.queued.verdicts.push_back(
      {&bound, [passes](std::span<const double>) -> std::vector<double> {
         return {passes ? 1.0 : 0.0};
       }});
}

constexpr MethodRow kSpeculative{
    .name = "speculative",
    .snapshot_format = 2,
    .options = "window",
    .spreads = true,
    .may_end_early = true,
    .defaults =
        [](const MethodChoices&, int num_calls, int num_workers) {
          return MethodOptions{.window_size =
                                   default_window(num_workers, 8, num_calls)};
        },
    .check = check_speculative_schedule,
    .make = make_speculative,
    .approximates = [](const MethodOptions& o) { return o.window_size > 1; },
    .note_if_approximate =
        "speculative draws other pictures than the sequential run, of the same "
        "distribution; --window 1 gives the sequential bytes",
    .useful_workers = workers_of<rows_of_window>,
    .most_rows = rows_of_window,
    .turn = turn_of_window,
    .most_tasks = speculative_tasks,
    .most_live = speculative_live};
constinit const MethodKind MethodKind::speculative{kSpeculative};

}  // namespace troupe::samplers
