#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace troupe::kernels {

/// A hash of what this machine computes: products in blocks of several heights,
/// attention, a convolution, norms, activations and embeddings at fixed shapes
/// in `compute`, and the functions of the C library that schedules use.
/// Machines that look alike may differ here: they have another C library, or
/// the matrix library chooses blocks by the size of their caches. The hash is
/// part of the execution class, so such machines do not share one. Takes some
/// milliseconds, most of them for the library's code generation. Runs on a
/// thread of its own with one OpenMP thread, so the hash does not depend on the
/// number of cores.
/// Errors: Errc::unsupported for a compute type that the CPU lacks;
/// Errc::invalid_argument where the system starts no thread.
/// Thread: any.
[[nodiscard]] std::uint64_t numeric_probe(DType compute);

}  // namespace troupe::kernels
