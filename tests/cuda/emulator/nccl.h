#pragma once

#include <cstddef>

// The emulated NCCL: what `load_nccl` gives in a program with emulated GPUs.
//
// It moves bytes as the real one does, and hangs where the real one hangs: on
// another count, on a rank that never comes, on sends that wait for each other
// in several groups, and on the way out after a rank was aborted. It ends the
// program, as emulated GPUs do, for what the real one does not survive: a call
// while an earlier one is in progress, and the use of a communicator that has
// ended. Thread: any.

namespace troupe::emulator {

struct NcclFaults {
  /// A call and an exchange are done after up to so many looks at them more
  /// than they need, as is drawn.
  std::size_t most_looks = 4;
  /// The rank whose `failing_group`th group of messages (from 1) fails; none:
  /// -1. Whether others learn of it is drawn.
  int failing_rank = -1;
  int failing_group = 1;
  /// In the same way, the first message that this rank sends is a byte shorter
  /// than it says.
  int mismatched_rank = -1;
  int mismatched_group = 1;
  /// ncclCommAbort does not return as long as this is so.
  bool aborts_hang = false;
};

/// From here on. `configure` (emulator.h) does not change them.
void set_nccl_faults(const NcclFaults& faults);
/// Calls of ncclCommAbort that hang.
[[nodiscard]] std::size_t hanging_nccl_aborts();
/// Communicators that have not ended.
[[nodiscard]] std::size_t nccl_communicators();

}  // namespace troupe::emulator
