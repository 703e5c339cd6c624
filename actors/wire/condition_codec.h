#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "models/condition.h"

namespace troupe::actors::wire {

/// The most bytes of an encoded condition: a prompt of 512 tokens has up to
/// 8 MB.
inline constexpr std::size_t kMostConditionBytes = std::size_t{64} << 20U;

/// A condition as troupe.wire.Condition; its hash is not in it. Errors:
/// Errc::invalid_argument above kMostConditionBytes or 64 tensors. Thread: any.
[[nodiscard]] std::string encode(const models::Condition& condition);
/// Errors: Errc::corrupt_file, also for more than 64 tensors. Thread: any.
[[nodiscard]] models::Condition decode_condition(
    std::span<const std::byte> bytes);

}  // namespace troupe::actors::wire
