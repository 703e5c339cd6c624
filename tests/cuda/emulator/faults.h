#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

// Things that go wrong at a chosen moment. Thread: any. A program may be told
// of one by its environment: EMULATED_LOSS and EMULATED_HANG are
// "DEVICE:OPERATIONS" of `lose_device` and `hang_device`.

namespace troupe::emulator {

/// After `operations` more operations of this device have run, the next
/// operation fails with `error`. The failed operation, all operations queued
/// behind it and every later call for this device return `error`, until
/// `configure`.
void lose_device(int device, std::uint64_t operations,
                 cudaError_t error = cudaErrorLaunchFailure);

/// After `operations` more operations of this device have run, nothing that is
/// queued on it runs any more, until `configure`. Calls answer as if it were at
/// work. A call that waits for it would never return, and is a bug that ends
/// the program.
void hang_device(int device, std::uint64_t operations);

/// When the device was lost, or began to hang.
[[nodiscard]] std::optional<std::chrono::steady_clock::time_point>
time_of_fault(int device);

/// From here on each operation of this device begins so long after the one
/// before.
void slow_down(int device, std::chrono::microseconds each);

/// The `nth` next call (from 1) of the runtime function named `function` does
/// nothing but return `error`.
void fail_call(std::string_view function, cudaError_t error, int nth = 1);

}  // namespace troupe::emulator
