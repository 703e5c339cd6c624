#include "tests/simulator/symbols.h"

#include <bit>
#include <span>
#include <utility>

#include "actors/random.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::actors::simulator {
namespace {

using samplers::Op;
using samplers::Slot;
using samplers::Task;

Symbol joined(Symbol left, std::uint64_t right) {
  return split_mix(left ^ split_mix(right + kSplitMixStep));
}

Symbol named(Op op, std::uint64_t kind) {
  return joined(xxh3_64(std::as_bytes(std::span(op->name))), kind);
}

Symbol joined(Symbol left, const samplers::Coefficients& coefficients) {
  for (const double one : coefficients) {
    left = joined(left, std::bit_cast<std::uint64_t>(one));
  }
  return left;
}

Symbol of_kind(ValueKind kind, std::uint64_t hash) {
  return hash / 8 * 8 + static_cast<Symbol>(kind);
}

std::optional<std::vector<Symbol>> read(
    const Task& task, SymbolTable& table,
    const std::map<Slot, Symbol>& made_before) {
  std::vector<Symbol> values;
  for (const Slot slot : task.inputs) {
    const auto made = made_before.find(slot);
    const std::optional<Symbol> value =
        made == made_before.end() ? table.find(slot) : made->second;
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return values;
}

/// Of every op that has no exception below. Ids, versions and parts are not in
/// it: they say who computes, not what.
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
  return joined(value, task.coefficients);
}

/// The Picard family's update: where the input did not change, the step itself.
/// A third coefficient is of the guesses alone.
Symbol swept(const Task& task, Symbol old_state, Symbol output,
             Symbol new_state) {
  const Symbol step = joined(
      joined(named(Op::step, static_cast<std::uint64_t>(task.from)), old_state),
      output);
  return of_kind(ValueKind::state,
                 new_state == old_state
                     ? step
                     : joined(joined(step, new_state),
                              {task.coefficients[0], task.coefficients[1]}));
}

SymbolicResult sweep(const Task& task, const std::vector<Symbol>& inputs,
                     double tolerance) {
  const Symbol state = swept(task, inputs.at(1), inputs.at(3), inputs.at(0));
  const Symbol before = inputs.at(2);
  const bool is_same = state == before;
  // At tolerance 0 a change must be more than that.
  const double residual =
      is_same ? 0.0
              : 2.0 * tolerance * Random(joined(state, before)).unit() + 1e-9;
  SymbolicResult made;
  made.result.scalars = {residual, is_same ? 1.0 : 0.0};
  made.outputs.push_back(state);
  Symbol known = state;  // what guesses are made of
  if (task.coefficients.size() > 2) {
    known = joined(known, task.coefficients);
  }
  for (std::size_t i = 4; i < inputs.size(); ++i) {
    known = joined(known, inputs[i]);
  }
  while (made.outputs.size() < task.outputs.size()) {
    made.outputs.push_back(
        of_kind(ValueKind::state,
                joined(named(Op::sweep, made.outputs.size()), known)));
  }
  return made;
}

/// What has the bytes of the first adds nothing to it.
Symbol mixed(const Task& task, const std::vector<Symbol>& inputs) {
  Symbol sum = inputs.at(0);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i] != inputs[0]) {
      sum =
          of_kind(ValueKind::state,
                  joined(joined(joined(named(Op::mix, i), sum), inputs[i]),
                         samplers::Coefficients{task.coefficients.at(i - 1)}));
    }
  }
  return sum;
}

/// Distances that no tensors need have.
SymbolicResult residual(const std::vector<Symbol>& inputs) {
  SymbolicResult made;
  const Symbol value = joined(named(Op::residual, inputs[0]), inputs[1]);
  made.outputs = {of_kind(ValueKind::state, value)};
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    made.result.scalars.push_back(Random(joined(value, inputs[i])).unit());
  }
  return made;
}

/// The next point: the step's where nothing was drafted, the draft in most
/// other cases, and its reflection in the rest.
SymbolicResult verified(const Task& task, const std::vector<Symbol>& inputs) {
  SymbolicResult made;
  const Symbol state = inputs.at(0);
  if (state != inputs.at(1)) {
    made.outputs = {state};
    made.result.scalars = {0.0};
    return made;
  }
  const Symbol step = joined(
      joined(named(Op::step, static_cast<std::uint64_t>(task.from)), state),
      inputs.at(2));
  const Symbol reflected =
      inputs.size() > 3 ? joined(joined(named(Op::verify, 0), step), inputs[3])
                        : step;
  const bool passes = inputs.size() > 3 && Random(reflected).unit() < 0.7;
  made.outputs = {passes ? inputs[3] : of_kind(ValueKind::state, reflected)};
  made.result.scalars = {passes || inputs.size() == 3 ? 1.0 : 0.0};
  return made;
}

}  // namespace

SymbolTable::SymbolTable(std::uint64_t sample_index)
    : sample_index_(sample_index) {}

std::optional<Symbol> SymbolTable::find(Slot slot) {
  if (slot == samplers::kInitialSlot) {
    (void)put(slot, of_kind(ValueKind::state, split_mix(sample_index_)));
  }
  const Symbol* const found = values_.find(slot);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

bool SymbolTable::put(Slot slot, Symbol value) {
  if (is_erased(slot)) {
    return true;
  }
  if (const Symbol* const found = values_.find(slot)) {
    return *found == value;
  }
  values_[slot] = value;
  count(value, 1);
  return true;
}

bool SymbolTable::erase(std::span<const Slot> slots) {
  bool is_first = true;
  for (const Slot slot : slots) {
    if (const auto value = values_.take(slot)) {
      count(*value, ~std::uint64_t{0});
    }
    is_first = !is_erased(slot) && is_first;
    if (slot >= erased_.size()) {
      erased_.resize(slot + 1);
    }
    erased_[slot] = true;
  }
  return is_first;
}

std::shared_ptr<SymbolTable> SymbolStore::open(std::uint64_t sample_index,
                                               std::uint32_t run) {
  if (closed_.contains(sample_index)) {
    return std::make_shared<SymbolTable>(sample_index);
  }
  Entry& entry = entries_[sample_index];
  if (run < entry.run) {
    return std::make_shared<SymbolTable>(sample_index);
  }
  if (run > entry.run || !entry.table) {
    entry = {run, std::make_shared<SymbolTable>(sample_index)};
  }
  return entry.table;
}

std::optional<Symbol> SymbolStore::find(const ValueName& name) const {
  const auto found = entries_.find(name.sample_index);
  const bool is_open = found != entries_.end() &&
                       found->second.run == name.run && found->second.table;
  return is_open ? found->second.table->find(name.slot) : std::nullopt;
}

bool SymbolStore::will_never_hold(const ValueName& name) const {
  const auto found = entries_.find(name.sample_index);
  return closed_.contains(name.sample_index) ||
         (found != entries_.end() &&
          (found->second.run > name.run ||
           (found->second.run == name.run && found->second.table &&
            found->second.table->is_erased(name.slot))));
}

void SymbolStore::free(const FreedSlots& freed) {
  open(freed.sample_index, freed.run)->erase(freed.slots);
}

void SymbolStore::drop(const DropRuns& drop) {
  if (!drop.last_run) {
    entries_.erase(drop.sample_index);
    closed_.insert(drop.sample_index);
  } else if (!closed_.contains(drop.sample_index)) {
    Entry& entry = entries_[drop.sample_index];
    if (entry.run <= *drop.last_run) {
      entry = {*drop.last_run + 1, nullptr};
    }
  }
}

std::optional<SymbolicResult> compute(
    const Task& task, SymbolTable& table, const samplers::MethodOptions& method,
    const std::map<Slot, Symbol>& made_before) {
  const std::optional<std::vector<Symbol>> inputs =
      read(task, table, made_before);
  if (!inputs) {
    return std::nullopt;
  }
  SymbolicResult made;
  if (task.op == Op::decode) {
    made.outputs = {decoded(inputs->at(0))};
  } else if (task.op == Op::sweep) {
    made = sweep(task, *inputs, method.tolerance);
  } else if (task.op == Op::mix) {
    made.outputs = {mixed(task, *inputs)};
  } else if (task.op == Op::residual) {
    made = residual(*inputs);
  } else if (task.op == Op::verify) {
    made = verified(task, *inputs);
  } else {
    for (std::size_t k = 0; k < task.outputs.size(); ++k) {
      made.outputs.push_back(
          of_kind(output_kind(task, k, samplers::num_segments(method)),
                  output_of(task, *inputs, k)));
    }
    // Nothing follows from them.
    made.result.scalars.assign(num_scalars(task), 1.0);
  }
  made.result.id = task.id;
  made.result.version = task.version;
  return made;
}

Symbol decoded(Symbol latents) {
  return of_kind(ValueKind::pixels, joined(named(Op::decode, 0), latents));
}

PlainEnd plain_end(const samplers::MethodOptions& options,
                   const samplers::Schedule& schedule,
                   std::uint64_t sample_index) {
  const std::unique_ptr<samplers::Method> method =
      samplers::make_method(options, schedule);
  SymbolTable table(sample_index);
  std::map<int, Symbol> points;
  while (!method->done()) {
    const std::vector<Task> tasks = method->ready(samplers::kNothingAhead);
    require(!tasks.empty(), Errc::internal, "simulator",
            "a method that is not done has nothing to do");
    for (const Task& task : tasks) {
      const auto made = compute(task, table, options);
      require(made.has_value(), Errc::internal, "simulator",
              "a task was handed out before its inputs were there");
      for (std::size_t k = 0; k < task.outputs.size(); ++k) {
        (void)table.put(task.outputs[k], made->outputs[k]);
      }
      if (const auto step = samplers::step_of(task); step && task.from == 0) {
        points[0] = table.find(step->state).value();
      }
      if (const auto point = samplers::point_of(task)) {
        points[task.to] = table.find(*point).value();
      }
      if (const auto dead = method->apply(made->result)) {
        table.erase(*dead);
      }
    }
  }
  const Symbol latents = table.find(method->result_slot()).value();
  return {latents, decoded(latents), table.size(), method->progress(),
          std::move(points)};
}

}  // namespace troupe::actors::simulator
