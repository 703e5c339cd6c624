#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "kernels/core/device.h"
#include "kernels/core/flat_table.h"
#include "kernels/core/inline_vector.h"
#include "samplers/parallel/method.h"

namespace troupe::actors {

/// Where the values of a sample's run are: the coordinator holds no value, only
/// this. A process is listed as a holder on its own word alone. Whoever
/// was asked to make or to fetch a value *may* hold it: from then on it is
/// notified when the value is freed.
/// Thread: one; a value without I/O.
class RunDirectory {
 public:
  /// The process is asked to fetch the value.
  void expect(samplers::Slot slot, int process);
  /// The process is asked to make the value, and no other process any more.
  void expect_made(samplers::Slot slot, int process);
  /// The process says that it holds the value, in this memory. A value that was
  /// freed stays so: the process was notified, or will be. `when`: rises.
  void add(samplers::Slot slot, int process, const Device& memory,
           std::uint64_t when = 0);
  /// The process says that it does not hold the value.
  void remove(samplers::Slot slot, int process);
  /// The sample restarts: its next run has no value yet.
  void clear() { copies_.clear(); }
  /// The process has ended, with all values that it held.
  void lose(int process);
  /// A device of the process has failed, with all values in its memory.
  void lose(int process, const Device& memory);

  /// A holder of the value: `near`, if that process is one.
  [[nodiscard]] std::optional<int> holder(samplers::Slot slot, int near) const;
  /// A holder of the value besides this process.
  [[nodiscard]] std::optional<int> other_holder(samplers::Slot slot,
                                                int besides) const;
  /// No other process holds the value.
  [[nodiscard]] bool is_only_at(samplers::Slot slot, int process) const;
  /// When a process first said that it holds the value; nothing: no process
  /// does.
  [[nodiscard]] std::optional<std::uint64_t> since(samplers::Slot slot) const;
  /// The process that was asked to make the value.
  [[nodiscard]] std::optional<int> maker(samplers::Slot slot) const;
  /// Takes the value off the list; returns the processes that may hold it.
  [[nodiscard]] InlineVector<int, 4> free(samplers::Slot slot);
  /// All processes that may hold something of the sample, of any run, or may
  /// have held it.
  [[nodiscard]] const std::set<int>& processes() const noexcept {
    return processes_;
  }

  /// A process that holds a value, or may.
  struct Copy {
    int process = 0;
    bool is_there = false;  ///< on its word
    bool makes_it = false;
    Device memory;
    std::uint64_t since = 0;  ///< there
  };
  using Copies = FlatTable<samplers::Slot, InlineVector<Copy, 1>>;
  [[nodiscard]] const Copies& copies() const noexcept { return copies_; }

 private:
  Copies copies_;
  std::set<int> processes_;
};

}  // namespace troupe::actors
