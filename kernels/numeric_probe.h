#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace troupe::kernels {

/// A hash of what this machine computes: products in blocks of several heights,
/// attention, a convolution, norms, activations and embeddings at fixed shapes
/// in `compute`, and the functions of the C library that schedules are made
/// with. Machines that look alike may differ here: by another C library, by a
/// matrix library that cuts its blocks as the caches are. It is part of an
/// execution class, so they do not share one.
/// Costs some milliseconds, most of them the library's code generation. Runs on
/// a thread of its own with one OpenMP thread, whatever the caller's has: the
/// number of cores decides nothing.
/// Errors: Errc::unsupported for a compute type that the CPU lacks;
/// Errc::invalid_argument where the system starts no thread.
/// Thread: any.
[[nodiscard]] std::uint64_t numeric_probe(DType compute);

}  // namespace troupe::kernels
