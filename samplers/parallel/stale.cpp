#include "samplers/parallel/stale.h"

#include <algorithm>
#include <map>
#include <utility>

#include "samplers/parallel/check_range.h"

namespace troupe::samplers {

Stale::Stale(const MethodOptions& options, int num_calls)
    : num_calls_(num_calls),
      num_segments_(options.num_segments),
      graph_(make_stale_graph(options)),
      firings_(graph_.firings(num_calls)) {
  connect();
  for (std::size_t i = 0; i < firings_.size(); ++i) {
    if (status_[i].inputs_missing == 0) {
      issue(static_cast<int>(i));
    }
  }
}

Stale::Status& Stale::status(int firing) {
  return status_[static_cast<std::size_t>(firing)];
}

Slot Stale::slot_of(int firing) {
  static_assert(Firing::kInitial + 1 == static_cast<int>(kInitialSlot));
  return static_cast<Slot>(firing + 1);
}

Progress Stale::progress() const {
  const auto share = [this](std::int64_t runs) {
    return (runs + num_segments_ - 1) / num_segments_;
  };
  return {.accepted = call_,
          .total = num_calls_,
          .nfe = share(segments_run_),
          .rounds = share(depth_)};
}

void Stale::connect() {
  status_.assign(firings_.size(), {});
  std::map<int, int> depth_of_part;
  for (std::size_t i = 0; i < firings_.size(); ++i) {
    const Firing& firing = firings_[i];
    const GraphNode& node =
        graph_.nodes()[static_cast<std::size_t>(firing.node)];
    Status& at = status_[i];
    int& busy = depth_of_part[node.segment < 0 ? -1 : node.part];
    at.depth = node.segment < 0 ? 0 : busy;
    for (const int input : firing.inputs) {
      if (input == Firing::kInitial) {
        ++initial_readers_left_;
        continue;
      }
      at.depth = std::max(at.depth, status(input).depth);
      status(input).readers.push_back(static_cast<int>(i));
      ++status(input).readers_left;
      ++at.inputs_missing;
    }
    at.depth += node.segment < 0 ? 0 : 1;
    busy = at.depth;
  }
}

void Stale::issue(int firing) {
  const Firing& at = firings_[static_cast<std::size_t>(firing)];
  const GraphNode& node = graph_.nodes()[static_cast<std::size_t>(at.node)];
  Task task;
  task.id = static_cast<std::uint64_t>(firing) + 1;
  task.op = node.segment < 0 ? Op::step : Op::segment;
  task.segment = std::max(0, node.segment);
  task.part = node.part;
  task.from = at.step;
  task.to = at.step + 1;
  task.timestep_call = at.timestep_call;
  for (const int input : at.inputs) {
    task.inputs.push_back(slot_of(input));
    const int readers = input == Firing::kInitial ? initial_readers_left_
                                                  : status(input).readers_left;
    if (readers == 1) {
      task.frees.push_back(slot_of(input));
    }
  }
  task.outputs = {slot_of(firing)};
  book_.add(std::move(task));
}

bool Stale::apply(const TaskResult& result) {
  const auto finished = book_.finish(result);
  if (!finished) {
    return false;
  }
  const int firing = static_cast<int>(finished->id) - 1;
  for (const Slot input : finished->inputs) {
    int& readers = input == kInitialSlot
                       ? initial_readers_left_
                       : status(static_cast<int>(input) - 1).readers_left;
    const bool freed = std::find(finished->frees.begin(), finished->frees.end(),
                                 input) != finished->frees.end();
    if (--readers == 0 && !freed) {
      book_.discard(input);
    }
  }
  finish(firing);
  for (const int reader : status(firing).readers) {
    if (--status(reader).inputs_missing == 0) {
      issue(reader);
    }
  }
  return true;
}

void Stale::finish(int firing) {
  const Firing& at = firings_[static_cast<std::size_t>(firing)];
  const bool is_step =
      graph_.nodes()[static_cast<std::size_t>(at.node)].segment < 0;
  status(firing).done = true;
  depth_ = std::max(depth_, status(firing).depth);
  if (is_step) {
    call_ = at.step + 1;
    state_ = slot_of(firing);
  } else {
    ++segments_run_;
  }
}

std::string Stale::snapshot() const {
  ByteWriter out(MethodKind::stale,
                 {static_cast<std::uint64_t>(num_calls_), firings_.size()});
  // Nearly all done firings lie before the first that is not.
  const auto first = std::find_if_not(status_.begin(), status_.end(),
                                      [](const Status& s) { return s.done; });
  out.number(static_cast<std::uint64_t>(first - status_.begin()));
  std::vector<std::uint64_t> beyond;
  for (auto at = first; at != status_.end(); ++at) {
    if (at->done) {
      beyond.push_back(static_cast<std::uint64_t>(at - first));
    }
  }
  out.number(beyond.size());
  for (const std::uint64_t firing : beyond) {
    out.number(firing);
  }
  book_.save(out);
  return out.take();
}

void Stale::restore(const std::string& bytes) {
  ByteReader in(bytes, MethodKind::stale,
                {static_cast<std::uint64_t>(num_calls_), firings_.size()});
  initial_readers_left_ = 0;
  segments_run_ = 0;
  call_ = 0;
  state_ = kInitialSlot;
  depth_ = 0;
  connect();
  std::vector<int> done(in.small<std::size_t>(firings_.size()));
  for (std::size_t i = 0; i < done.size(); ++i) {
    done[i] = static_cast<int>(i);
  }
  const auto first = static_cast<int>(done.size());
  for (std::size_t left = in.count(); left > 0; --left) {
    const int firing = first + in.small<int>(firings_.size() - 1);
    require(firing < static_cast<int>(firings_.size()), Errc::corrupt_file,
            "snapshot", "has a firing that is not in the graph");
    done.push_back(firing);
  }
  for (const int firing : done) {
    finish(firing);
    for (const int input : firings_[static_cast<std::size_t>(firing)].inputs) {
      --(input == Firing::kInitial ? initial_readers_left_
                                   : status(input).readers_left);
    }
    for (const int reader : status(firing).readers) {
      --status(reader).inputs_missing;
    }
  }
  book_.load(in);
  in.expect_end();
}

namespace {

MethodOptions stale_defaults(const MethodChoices& choices, int /*num_calls*/) {
  MethodOptions options;
  options.stride = choices.preset == "asyncdiff2" ? 2 : 1;
  return options;
}

std::unique_ptr<Method> make_stale(const MethodOptions& options,
                                   const Schedule& schedule) {
  const int calls = schedule.num_model_calls();
  check_segments(options);
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

/// A stride of 2 has the last segment twice.
int stale_parts(const MethodOptions& options) {
  return options.num_segments + options.stride - 1;
}

/// The firings of the graph, and its steady period.
Turn stale_turn(const MethodOptions& options, const TurnShape& shape) {
  const MarkedGraph graph = make_stale_graph(options);
  std::vector<double> load(static_cast<std::size_t>(shape.num_workers));
  double segments = 0;
  for (const Firing& firing : graph.firings(shape.num_calls)) {
    const GraphNode& node =
        graph.nodes()[static_cast<std::size_t>(firing.node)];
    segments += node.segment >= 0 ? 1 : 0;
    load[static_cast<std::size_t>(node.part % shape.num_workers)] +=
        shape.segment_share * static_cast<double>(node.cost);
  }
  const Ratio period = graph.steady_period();
  const int fresh = std::min(options.warmup_steps + options.final_fresh_steps,
                             shape.num_calls);
  const double steady = shape.segment_share * static_cast<double>(period.num) /
                        static_cast<double>(period.den);
  const double busy = std::min<double>(std::ranges::max(load), shape.num_calls);
  return {
      .evaluations = segments / options.num_segments,
      .busy = busy,
      .latency = std::max(busy, fresh + (shape.num_calls - fresh) * steady)};
}

}  // namespace

extern constinit const MethodRow kStale{
    .name = "stale",
    .options = "preset segments ages stride warmup final-fresh",
    .defaults = stale_defaults,
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
    .in_flight =
        [](int, int) {
          return InFlight{2, 2};
        },
    .turn = stale_turn,
    .most_tasks =
        [](const MethodOptions& o, int num_calls) {
          return (o.num_segments + 1.0) * num_calls;
        }};

}  // namespace troupe::samplers
