#include "actors/simulator/symbols.h"

#include <utility>

#include "actors/simulator/random.h"
#include "kernels/core/error.h"

namespace troupe::actors::simulator {
namespace {

using samplers::Op;
using samplers::Slot;
using samplers::Task;

Symbol joined(Symbol left, std::uint64_t right) {
  return split_mix(left ^ split_mix(right + kSplitMixStep));
}

Symbol named(Op op, std::uint64_t kind) {
  return joined(static_cast<std::uint64_t>(op), kind);
}

std::optional<std::vector<Symbol>> read(const Task& task,
                                        const SymbolTable& table) {
  std::vector<Symbol> values;
  for (const Slot slot : task.inputs) {
    const std::optional<Symbol> value = table.find(slot);
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return values;
}

/// Everything but sweeps. Ids, versions and parts are not in it: they say who
/// computes, not what.
Symbol output_of(const Task& task, const std::vector<Symbol>& inputs,
                 std::size_t number) {
  Symbol value = named(task.op, number);
  for (const int one : {static_cast<int>(task.branch), task.segment, task.from,
                        task.to, task.timestep_call}) {
    value = joined(value, static_cast<std::uint64_t>(one));
  }
  for (const Symbol input : inputs) {
    value = joined(value, input);
  }
  return value;
}

/// The Picard family's update: where the input did not change, the step itself.
Symbol swept(int call, Symbol old_state, Symbol output, Symbol new_state) {
  const Symbol step = joined(
      joined(named(Op::step, static_cast<std::uint64_t>(call)), old_state),
      output);
  return new_state == old_state ? step : joined(step, new_state);
}

SymbolicResult sweep(const Task& task, const std::vector<Symbol>& inputs,
                     double tolerance) {
  const auto points = static_cast<std::size_t>(task.to - task.from);
  SymbolicResult made;
  Symbol state = inputs.at(0);
  for (std::size_t j = 0; j < points; ++j) {
    state = swept(task.from + static_cast<int>(j), inputs.at(j),
                  inputs.at(points + 1 + j), state);
    const bool is_same = state == inputs.at(j + 1);
    const double residual =
        is_same
            ? 0.0
            : 2.0 * tolerance * Random(joined(state, inputs.at(j + 1))).unit();
    // At tolerance 0 a change must be more than that.
    const double smallest = is_same ? 0.0 : 1e-9;
    made.result.scalars.insert(made.result.scalars.end(),
                               {residual + smallest, is_same ? 1.0 : 0.0});
    made.outputs.push_back(state);
  }
  while (made.outputs.size() < task.outputs.size()) {
    made.outputs.push_back(
        joined(named(Op::sweep, made.outputs.size()), state));
  }
  return made;
}

}  // namespace

SymbolTable::SymbolTable(std::uint64_t sample_index) {
  values_[samplers::kInitialSlot] = split_mix(sample_index);
}

std::optional<Symbol> SymbolTable::find(Slot slot) const {
  const auto found = values_.find(slot);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

bool SymbolTable::put(Slot slot, Symbol value) {
  return erased_.contains(slot) ||
         values_.emplace(slot, value).first->second == value;
}

bool SymbolTable::erase(std::span<const Slot> slots) {
  bool was_there = true;
  for (const Slot slot : slots) {
    was_there = values_.erase(slot) == 1 && was_there;
    erased_.insert(slot);
  }
  return was_there;
}

std::shared_ptr<SymbolTable> SymbolStore::open(std::uint64_t sample_index,
                                               std::uint32_t run) {
  const auto held = entries_.find(sample_index);
  const bool is_late = closed_.contains(sample_index) ||
                       (held != entries_.end() && run < held->second.run);
  if (is_late) {
    return std::make_shared<SymbolTable>(sample_index);
  }
  if (held == entries_.end() || held->second.run != run) {
    entries_[sample_index] = {run, std::make_shared<SymbolTable>(sample_index)};
  }
  return entries_[sample_index].table;
}

void SymbolStore::close(std::uint64_t sample_index) {
  entries_.erase(sample_index);
  closed_.insert(sample_index);
}

std::optional<SymbolicResult> compute(const Task& task,
                                      const SymbolTable& table,
                                      double tolerance) {
  const std::optional<std::vector<Symbol>> inputs = read(task, table);
  if (!inputs) {
    return std::nullopt;
  }
  SymbolicResult made;
  if (task.op == Op::decode) {
    made.outputs = {decoded(inputs->at(0))};
  } else if (task.op == Op::sweep) {
    made = sweep(task, *inputs, tolerance);
  } else {
    for (std::size_t k = 0; k < task.outputs.size(); ++k) {
      made.outputs.push_back(output_of(task, *inputs, k));
    }
  }
  made.result.id = task.id;
  made.result.version = task.version;
  return made;
}

Symbol decoded(Symbol latents) { return joined(named(Op::decode, 0), latents); }

PlainEnd plain_end(const samplers::MethodOptions& options,
                   const samplers::Schedule& schedule,
                   std::uint64_t sample_index) {
  const std::unique_ptr<samplers::Method> method =
      samplers::make_method(options, schedule);
  SymbolTable table(sample_index);
  while (!method->done()) {
    const std::vector<Task> tasks = method->ready(samplers::kNothingAhead);
    require(!tasks.empty(), Errc::internal, "simulator",
            "a method that is not done has nothing to do");
    for (const Task& task : tasks) {
      const auto made = compute(task, table, options.tolerance);
      require(made.has_value(), Errc::internal, "simulator",
              "a task was handed out before its inputs were there");
      for (std::size_t k = 0; k < task.outputs.size(); ++k) {
        (void)table.put(task.outputs[k], made->outputs[k]);
      }
      if (const auto dead = method->apply(made->result)) {
        (void)table.erase(*dead);
      }
    }
  }
  const Symbol latents = table.find(method->result_slot()).value();
  return {latents, decoded(latents), table.size(), method->progress()};
}

}  // namespace troupe::actors::simulator
