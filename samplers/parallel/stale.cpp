#include "samplers/parallel/stale.h"

#include <algorithm>
#include <map>
#include <utility>

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

int Stale::num_parts() const {
  int parts = 1;
  for (const GraphNode& node : graph_.nodes()) {
    parts = std::max(parts, node.part + 1);
  }
  return parts;
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
  ByteWriter out;
  out.number(static_cast<std::uint64_t>(MethodKind::stale));
  out.number(static_cast<std::uint64_t>(num_calls_));
  out.number(firings_.size());
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
  ByteReader in(bytes);
  for (const std::uint64_t expected :
       {static_cast<std::uint64_t>(MethodKind::stale),
        static_cast<std::uint64_t>(num_calls_),
        static_cast<std::uint64_t>(firings_.size())}) {
    require(in.number() == expected, Errc::corrupt_file, "snapshot",
            "belongs to another method, graph or number of steps");
  }
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

}  // namespace troupe::samplers
