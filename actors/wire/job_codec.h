#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "actors/job_record.h"

namespace troupe::actors::wire {

/// The most bytes of an encoded record. A record of a thousand model calls has
/// some 100 KB, one of fifty 10 KB.
inline constexpr std::size_t kMostJobBytes = std::size_t{4} << 20U;
/// Of an encoded condition: a prompt of 512 tokens has up to 8 MB.
inline constexpr std::size_t kMostConditionBytes = std::size_t{64} << 20U;

/// The record as a protobuf message, troupe.wire.Job. Deterministic for one
/// build, but no name of the job: that is hash_of(record).
/// Errors: Errc::invalid_argument for a record above kMostJobBytes.
/// Thread: any.
[[nodiscard]] std::string encode(const JobRecord& job);

/// Reads a record of unknown origin and checks it (see `check`), so that it can
/// be computed. While it is read it takes at most 64 times its size, and while
/// a stale pipeline is checked 128 MiB more. Errors: Errc::corrupt_file for
/// bytes that are no record, for another format and fields of a newer Troupe,
/// and for what `check` refuses; Errc::unsupported. Thread: any.
[[nodiscard]] JobRecord decode_job(
    std::span<const std::byte> bytes,
    models::DenoiserTable table = models::denoiser_table());

/// The same without `check`: for whoever wants to look at a record.
[[nodiscard]] JobRecord read_job(std::span<const std::byte> bytes);

/// A condition as troupe.wire.Condition; its hash is not in it.
[[nodiscard]] std::string encode(const models::Condition& condition);
/// Errors: Errc::corrupt_file, also for more than 64 tensors. Thread: any.
[[nodiscard]] models::Condition decode_condition(
    std::span<const std::byte> bytes);

}  // namespace troupe::actors::wire
