#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "actors/job_record.h"

namespace troupe::actors::wire {

/// The most bytes of an encoded record. A record of a thousand model calls has
/// some 100 KB, one of fifty 10 KB.
inline constexpr std::size_t kMostJobBytes = std::size_t{4} << 20U;

/// The record as a protobuf message, troupe.wire.Job. Deterministic for one
/// build, but no name of the job: that is hash_of(record).
/// Errors: Errc::invalid_argument for a record above kMostJobBytes.
/// Thread: any.
[[nodiscard]] std::string encode(const JobRecord& job);

/// Reads a record of unknown origin and checks it (see `check`), so that it can
/// be computed. The check of a stale pipeline takes up to 128 MiB. Errors:
/// those of `read_job` and of `check`. Thread: any.
[[nodiscard]] JobRecord decode_job(
    std::span<const std::byte> bytes,
    models::DenoiserTable table = models::denoiser_table());

/// Reads a record without `check`, only to look at it. It takes at most 64
/// times the record's size and 1 MiB. Errors: Errc::corrupt_file for bytes that
/// are no record, another format and fields of a newer Troupe.
/// Thread: any.
[[nodiscard]] JobRecord read_job(std::span<const std::byte> bytes);

}  // namespace troupe::actors::wire
