#pragma once

#include <cstdint>

#include "kernels/core/device.h"
#include "kernels/core/device_backend.h"
#include "kernels/core/dtype.h"

namespace troupe::kernels {

/// A hash of what a device computes: products in blocks of several heights,
/// attention, a convolution, norms, activations and a rotary embedding at fixed
/// shapes in `compute`; on the CPU also tables of embeddings, and the functions
/// of the C library that schedules use. Machines that look alike may differ
/// here: they have another C library, or a library chooses blocks by the size
/// of their caches. The hash is part of the execution class, so such machines
/// do not share one. Takes some milliseconds on the CPU, most of them for the
/// library's code generation. Runs on a thread of its own with one OpenMP
/// thread, so the hash does not depend on the number of cores. On a GPU the
/// probe makes its own queue.
/// Errors: Errc::unsupported for a compute type that the device lacks;
/// Errc::invalid_argument where the system starts no thread; on a GPU those of
/// make_device_backend and DeviceBackend.
/// Thread: any.
[[nodiscard]] std::uint64_t numeric_probe(DType compute, Device device = {},
                                          const DeviceOptions& options = {});

}  // namespace troupe::kernels
