#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string_view>

// Things that go wrong at a chosen moment. Thread: any.

namespace troupe::emulator {

/// After `operations` more operations of this device have run, the next
/// operation fails with `error`. The failed operation, all operations queued
/// behind it and every later call for this device return `error`, until
/// `configure`.
void lose_device(int device, std::uint64_t operations,
                 cudaError_t error = cudaErrorLaunchFailure);

/// The `nth` next call (from 1) of the runtime function named `function` does
/// nothing but return `error`.
void fail_call(std::string_view function, cudaError_t error, int nth = 1);

}  // namespace troupe::emulator
