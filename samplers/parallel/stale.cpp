#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "samplers/parallel/check_range.h"
#include "samplers/parallel/firing_slots.h"
#include "samplers/parallel/marked_graph.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/stale_reach.h"
#include "samplers/parallel/task_book.h"

namespace troupe::samplers {
namespace {

/// A stale pipeline with deterministic ages: runs each firing of a marked graph
/// as soon as its inputs are there. A late worker stalls its readers; no older
/// value is read instead.
///
/// What results in their order make possible is issued, and `max_open` tasks
/// ahead of that. If an early result is late, others wait: a firing that needs
/// a solver step is issued when all that this step needed is done, but for so
/// many steps as tasks may be ahead.
///
/// Steps are counted in model calls, so every solver can be carried; both calls
/// of a Heun step are stale alike.
class Stale final : public BookedMethod {
 public:
  Stale(const MethodOptions& options, int num_calls);

  [[nodiscard]] std::vector<Task> ready(int max_open) override;
  [[nodiscard]] bool done() const override { return call_ == num_calls_; }
  [[nodiscard]] Progress progress() const override;
  [[nodiscard]] Slot result_slot() const override { return state_; }
  [[nodiscard]] std::string snapshot() const override;
  void restore(const std::string& bytes) override;

 private:
  /// What is left to do around a firing. Firing i is task i + 1.
  struct Status {
    std::vector<int> readers;
    int inputs_missing = 0;
    /// Segment runs that must happen in sequence until the firing is done: a
    /// run reads the output of the run before, or runs on the same part.
    int depth = 0;
    bool issued = false;
    bool done = false;
  };

  [[nodiscard]] Status& status(int firing) {
    return status_[static_cast<std::size_t>(firing + 1)];
  }
  [[nodiscard]] const Reach& reach(int firing) const {
    return reach_[static_cast<std::size_t>(firing + 1)];
  }
  [[nodiscard]] const Firing& firing(int index) const {
    return firings_[static_cast<std::size_t>(index)];
  }
  void advance(const Task& done, const std::vector<double>& scalars) override;
  void connect();
  void note_startable();
  void issue(int index);
  /// Releases the slots without readers among the firings that are still to be
  /// issued.
  void release_unread(const Slots& slots);
  /// Marks a firing as issued, and its inputs as read once more.
  void note_issued(int index);
  void finish(int index);

  int num_calls_;
  int num_segments_;
  MarkedGraph graph_;
  std::vector<Firing> firings_;
  std::vector<Reach> reach_;  ///< first the initial state's
  FiringSlots slots_;
  std::vector<Status> status_;     ///< first the initial state's
  std::vector<int> readers_left_;  ///< by slot: that were not issued
  int call_ = 0;
  Slot state_ = kInitialSlot;
  int next_ahead_ = 0;        ///< all firings before it were issued
  int complete_ = -1;         ///< all that solver steps up to it need is done
  std::vector<int> missing_;  ///< what others need beside: not done, by step
  /// Whose inputs are made; some may have been issued ahead.
  std::vector<int> startable_;
  struct Work {
    std::int64_t segments = 0;
    int depth = 0;
  };
  Work all_;   ///< of the whole run
  Work done_;  ///< whose results have arrived
};

Stale::Stale(const MethodOptions& options, int num_calls)
    : num_calls_(num_calls),
      num_segments_(num_segments(options)),
      graph_(make_stale_graph(options)),
      firings_(graph_.firings(num_calls)),
      reach_(reaches(graph_, firings_, num_calls)),
      slots_(graph_, firings_, options) {
  connect();
  note_startable();
}

/// Collects firings with complete inputs that are neither issued nor done.
void Stale::note_startable() {
  startable_.clear();
  for (int i = 0; i < static_cast<int>(firings_.size()); ++i) {
    if (status(i).inputs_missing == 0 && !status(i).issued) {
      startable_.push_back(i);
    }
  }
}

std::vector<Task> Stale::ready(int max_open) {
  const int last_step =
      complete_ + steps_of(max_open, firings_.size(), num_calls_);
  const auto may_begin = [&](int index) {
    return reach(index).after <= last_step;
  };
  std::erase_if(startable_, [&](int index) {
    if (!status(index).issued && may_begin(index)) {
      issue(index);
    }
    return status(index).issued;
  });
  // A firing stands after its inputs.
  for (; next_ahead_ < static_cast<int>(firings_.size()) &&
         book_.num_open() < max_open && may_begin(next_ahead_);
       ++next_ahead_) {
    if (!status(next_ahead_).issued) {
      issue(next_ahead_);
    }
  }
  return book_.take(max_open);
}

Progress Stale::progress() const {
  // Every firing is read on the way to the last step, so once that is there all
  // have run, whatever has not arrived.
  const Work& work = done() ? all_ : done_;
  const auto share = [this](std::int64_t runs) {
    return (runs + num_segments_ - 1) / num_segments_;
  };
  return {.accepted = call_,
          .total = num_calls_,
          .nfe = share(work.segments),
          .rounds = share(work.depth)};
}

void Stale::connect() {
  status_.assign(firings_.size() + 1, {});
  readers_left_.assign(slots_.size(), 0);
  all_ = {};
  complete_ = -1;
  missing_.assign(static_cast<std::size_t>(num_calls_), 0);
  std::map<int, int> depth_of_part;
  for (int i = 0; i < static_cast<int>(firings_.size()); ++i) {
    Status& at = status(i);
    ++missing_[static_cast<std::size_t>(reach(i).needed_by)];
    for (const Slot slot : slots_.read_by(i)) {
      ++readers_left_[slot];
    }
    for (const int input : firing(i).inputs) {
      Status& source = status(input);
      source.readers.push_back(i);
      at.inputs_missing += input == Firing::kInitial ? 0 : 1;
      at.depth = std::max(at.depth, source.depth);
    }
    const GraphNode& node = graph_.node_of(firing(i));
    if (!node.is_step()) {
      int& busy = depth_of_part[node.part];
      at.depth = std::max(at.depth, busy) + 1;
      busy = at.depth;
      ++all_.segments;
      all_.depth = std::max(all_.depth, at.depth);
    }
  }
}

void Stale::issue(int index) {
  const Firing& at = firing(index);
  const GraphNode& node = graph_.node_of(at);
  Task task;
  task.id = static_cast<std::uint64_t>(index) + 1;
  task.op = node.is_step() ? Op::step : Op::segment;
  task.segment = std::max(0, node.segment);
  task.part = node.part;
  task.from = at.step;
  task.to = at.step + 1;
  task.timestep_call = at.timestep_call;
  task.inputs = slots_.read_by(index);
  task.outputs = slots_.written_by(index);
  book_.add(std::move(task));
  note_issued(index);
  release_unread(slots_.read_by(index));
  if (index + 1 < static_cast<int>(firings_.size())) {
    // Skips may have a reader where what goes on to the next segment has none.
    release_unread(slots_.written_by(index));
  }
}

void Stale::release_unread(const Slots& slots) {
  for (const Slot slot : slots) {
    if (readers_left_[slot] == 0) {
      book_.release(slot);
    }
  }
}

void Stale::note_issued(int index) {
  status(index).issued = true;
  for (const Slot slot : slots_.read_by(index)) {
    --readers_left_[slot];
  }
}

void Stale::advance(const Task& done, const std::vector<double>& /*scalars*/) {
  const int index = static_cast<int>(done.id) - 1;
  finish(index);
  for (const int reader : status(index).readers) {
    if (status(reader).inputs_missing == 0 && !status(reader).issued) {
      startable_.push_back(reader);
    }
  }
}

void Stale::finish(int index) {
  status(index).done = true;
  --missing_[static_cast<std::size_t>(reach(index).needed_by)];
  while (complete_ + 1 < num_calls_ &&
         missing_[static_cast<std::size_t>(complete_ + 1)] == 0) {
    ++complete_;
  }
  done_.depth = std::max(done_.depth, status(index).depth);
  for (const int reader : status(index).readers) {
    --status(reader).inputs_missing;
  }
  if (!graph_.node_of(firing(index)).is_step()) {
    ++done_.segments;
  } else if (firing(index).step >= call_) {
    call_ = firing(index).step + 1;
    state_ = slots_.main_of(index);
  }
}

std::string Stale::snapshot() const {
  ByteWriter out(MethodKind::stale,
                 {num_calls_, static_cast<int>(firings_.size()),
                  static_cast<int>(slots_.size())});
  // Nearly all done firings lie before the first that is not.
  const auto begin = status_.begin() + 1;
  const auto first = std::find_if_not(begin, status_.end(),
                                      [](const Status& s) { return s.done; });
  out.number(first - begin);
  std::vector<std::ptrdiff_t> beyond;
  for (auto at = first; at != status_.end(); ++at) {
    if (at->done) {
      beyond.push_back(at - first);
    }
  }
  out.numbers(beyond);
  book_.save(out);
  return out.take();
}

void Stale::restore(const std::string& bytes) {
  const auto count = static_cast<int>(firings_.size());
  ByteReader in(bytes, MethodKind::stale,
                {num_calls_, count, static_cast<int>(slots_.size())});
  done_ = {};
  call_ = 0;
  state_ = kInitialSlot;
  connect();
  int first = 0;
  in.number(first, count);
  std::vector<int> done(static_cast<std::size_t>(first));
  std::iota(done.begin(), done.end(), 0);
  std::vector<int> beyond;
  in.numbers(beyond);
  for (const int place : beyond) {
    require(place < count - first, Errc::corrupt_file, "snapshot",
            "has a firing that is not in the graph");
    done.push_back(first + place);
  }
  for (const int index : done) {
    finish(index);
    note_issued(index);
  }
  book_.load(in);
  in.expect_end();
  next_ahead_ = 0;
  int open = 0;
  for (int i = 0; i < count; ++i) {
    if (book_.is_open(static_cast<std::uint64_t>(i) + 1)) {
      require(!status(i).done, Errc::corrupt_file, "snapshot",
              "has a task that is done");
      note_issued(i);
      ++open;
    }
  }
  require(open == book_.num_open(), Errc::corrupt_file, "snapshot",
          "has a task that is not in the graph");
  note_startable();
}

/// The last tenth of the calls is fresh: of 20 steps of the demo model in bf16,
/// eight classes, the median error falls from 0.168 to 0.148 for 9 % of the
/// speed; a fifth gives 0.141 for 16 %, two fifths 0.125 for 28 %.
/// scripts/bench_stale.sh measures it.
constexpr int kFreshShare = 10;

/// A preset is AsyncDiff's own.
MethodOptions stale_defaults(const MethodChoices& choices, int num_calls) {
  MethodOptions options;
  options.stride = choices.preset == "asyncdiff2" ? 2 : 1;
  if (choices.preset.empty()) {
    options.final_fresh_steps = num_calls / kFreshShare;
  }
  return options;
}

std::unique_ptr<Method> make_stale(const MethodOptions& options,
                                   const Schedule& schedule) {
  const int calls = schedule.num_model_calls();
  check_range("warmup_steps", options.warmup_steps, 0, calls,
              "counts model calls of this run");
  check_range("final_fresh_steps", options.final_fresh_steps, 0, calls,
              "counts model calls of this run");
  if (options.graph != nullptr) {
    check_stale_graph(*options.graph, options, calls);
  }
  return std::make_unique<Stale>(options, calls);
}

bool is_stale(const MethodOptions& options) {
  const auto lags = [](int age) { return age != 0; };
  return options.stride != 1 ||
         (options.ages.empty() ? lags(options.age)
                               : std::ranges::any_of(options.ages, lags));
}

/// Figures of scripts/bench_stale.sh, of the settings that they were measured
/// with.
std::string_view stale_note(const MethodChoices& /*choices*/,
                            const MethodOptions& options, int num_calls) {
  if (!is_stale(options)) {
    return {};
  }
  const bool has_usual_graph =
      options.num_segments == 2 && options.segment_speeds.empty() &&
      options.cut == CutShape::chain && options.age == 1 &&
      options.ages.empty() && options.warmup_steps == 1;
  const int fresh = options.final_fresh_steps;
  if (has_usual_graph && options.stride == 1 &&
      fresh == num_calls / kFreshShare) {
    return "stale approximates: relative RMSE from the sequential latents on "
           "the demo model, median (worst) of eight classes and two seeds: "
           "0.14 (0.51) at 20 steps, 0.08 (0.32) at 50; troupe bench measures "
           "others; --ages 0 gives their bytes";
  }
  if (has_usual_graph && fresh == 0) {
    return options.stride == 1
               ? "asyncdiff approximates: relative RMSE from the sequential "
                 "latents on the demo model, median (worst) of eight classes: "
                 "0.17 (0.40) at 20 steps, 0.14 (0.26) at 50; troupe bench "
                 "measures others"
               : "asyncdiff2 approximates: relative RMSE from the sequential "
                 "latents on the demo model, median (worst) of eight classes: "
                 "0.47 (0.53) at 20 steps, 0.33 (0.43) at 50; troupe bench "
                 "measures others";
  }
  return "stale approximates: troupe bench measures how far its latents are "
         "from the sequential run's; --ages 0 gives their bytes";
}

/// A stride of 2 has the last part twice.
int stale_parts(const MethodOptions& options) {
  return options.num_segments + options.stride - 1;
}

/// The firings of the graph, and its steady period.
Turn stale_turn(const MethodOptions& options, const TurnShape& shape) {
  const MarkedGraph graph = make_stale_graph(options);
  std::vector<double> load(static_cast<std::size_t>(shape.num_workers));
  double segments = 0;
  const double unit = shape.part_share / cost_of_part(options.cut);
  for (const Firing& firing : graph.firings(shape.num_calls)) {
    const GraphNode& node = graph.node_of(firing);
    segments += node.is_step() ? 0 : 1;
    load[static_cast<std::size_t>(node.part % shape.num_workers)] +=
        unit * static_cast<double>(node.cost);
  }
  const Ratio period = graph.steady_period();
  const int fresh = std::min(options.warmup_steps + options.final_fresh_steps,
                             shape.num_calls);
  const double steady =
      unit * static_cast<double>(period.num) / static_cast<double>(period.den);
  const double busy = std::min<double>(std::ranges::max(load), shape.num_calls);
  return {
      .evaluations = segments / num_segments(options),
      .busy = busy,
      .latency = std::max(busy, fresh + (shape.num_calls - fresh) * steady)};
}

}  // namespace

extern constinit const MethodRow kStale{
    .name = "stale",
    .snapshot_format = 4,
    .options =
        "preset segments segment-speeds cut ages stride warmup "
        "final-fresh",
    .defaults = stale_defaults,
    .note = stale_note,
    .make = make_stale,
    .approximates = is_stale,
    .graph =
        [](const MethodOptions& o) {
          return std::make_shared<const GraphTable>(
              make_stale_graph(o).table());
        },
    .parts = stale_parts,
    .useful_workers =
        [](const MethodOptions& o, std::uint64_t) {
          return static_cast<std::uint64_t>(stale_parts(o));
        },
    .turn = stale_turn,
    .most_tasks =
        [](const MethodOptions& o, int num_calls) {
          return (num_segments(o) + 1.0) * num_calls;
        },
    .most_live = stale_live};

}  // namespace troupe::samplers
