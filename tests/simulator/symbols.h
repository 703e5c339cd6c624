#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "actors/coordinator_policy.h"
#include "kernels/core/flat_table.h"
#include "samplers/parallel/method.h"

namespace troupe::actors::simulator {

/// A value as a number: a hash of the op's name, inputs and coefficients. Two
/// values are equal if and only if they were made in the same way. The last
/// three bits say of which kind the value is.
using Symbol = std::uint64_t;

using samplers::ValueKind;
[[nodiscard]] constexpr ValueKind kind_of(Symbol symbol) {
  return static_cast<ValueKind>(symbol % 8);
}

/// The slots of one sample's run, by the rules of SlotTable.
class SymbolTable {
 public:
  explicit SymbolTable(std::uint64_t sample_index);

  /// Makes the initial value when it is first asked for.
  [[nodiscard]] std::optional<Symbol> find(samplers::Slot slot);
  /// Written late into an erased slot it is let go, as in SlotTable. False if
  /// the slot holds another value.
  [[nodiscard]] bool put(samplers::Slot slot, Symbol value);
  /// False if one of them was erased before.
  bool erase(std::span<const samplers::Slot> slots);
  [[nodiscard]] bool is_erased(samplers::Slot slot) const {
    return slot < erased_.size() && erased_[slot];
  }
  [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
  [[nodiscard]] const FlatTable<samplers::Slot, Symbol>& values()
      const noexcept {
    return values_;
  }
  [[nodiscard]] std::uint64_t bytes(const ValueSizes& sizes) const {
    std::uint64_t sum = 0;
    for (std::size_t kind = 0; kind < num_of_.size(); ++kind) {
      sum += num_of_[kind] * bytes_of(sizes, static_cast<ValueKind>(kind));
    }
    return sum;
  }

 private:
  void count(Symbol value, std::uint64_t more) {
    num_of_.at(static_cast<std::size_t>(kind_of(value))) += more;
  }

  std::uint64_t sample_index_;
  std::array<std::uint64_t, samplers::kNumValueKinds>
      num_of_{};  ///< values, by kind
  FlatTable<samplers::Slot, Symbol> values_;
  std::vector<bool> erased_;  ///< by slot
};

/// The tables of one process, by the rules of ValueStore.
class SymbolStore {
 public:
  struct Entry {
    std::uint32_t run = 0;
    std::shared_ptr<SymbolTable> table;  ///< null: nothing yet
  };

  [[nodiscard]] std::shared_ptr<SymbolTable> open(std::uint64_t sample_index,
                                                  std::uint32_t run);
  /// Nothing is made for a value that is only asked for.
  [[nodiscard]] std::optional<Symbol> find(const ValueName& name) const;
  /// It was freed, or its run is over.
  [[nodiscard]] bool will_never_hold(const ValueName& name) const;
  void free(const FreedSlots& freed);
  void drop(const DropRuns& drop);
  [[nodiscard]] const std::map<std::uint64_t, Entry>& entries() const noexcept {
    return entries_;
  }

 private:
  std::map<std::uint64_t, Entry> entries_;
  std::set<std::uint64_t> closed_;
};

/// What a task makes of its inputs.
struct SymbolicResult {
  std::vector<Symbol> outputs;  ///< one per output slot
  samplers::TaskResult result;
};
/// Nothing if an input is missing. `made_before` is what other tasks of its
/// pass will write into the table. Residuals of sweeps follow from the values
/// that they compare, and lie up to twice the method's tolerance.
[[nodiscard]] std::optional<SymbolicResult> compute(
    const samplers::Task& task, SymbolTable& table,
    const samplers::MethodOptions& method,
    const std::map<samplers::Slot, Symbol>& made_before = {});

/// How a sample ends that nothing disturbs: computed by a plain loop.
struct PlainEnd {
  Symbol latents = 0;
  Symbol pixels = 0;
  std::size_t slots_left = 0;  ///< when it is done, without pixels
  samplers::Progress progress;
  std::map<int, Symbol> points;  ///< of the trajectory, by call
};
[[nodiscard]] PlainEnd plain_end(const samplers::MethodOptions& options,
                                 const samplers::Schedule& schedule,
                                 std::uint64_t sample_index);

/// The task that decodes, as the coordinator makes it.
[[nodiscard]] Symbol decoded(Symbol latents);

}  // namespace troupe::actors::simulator
