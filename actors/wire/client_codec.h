#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "actors/job_status.h"

namespace troupe::actors::wire {

/// The most bytes of a question or an answer.
inline constexpr std::size_t kMostClientBytes = std::size_t{4} << 20U;
/// The most processes that an answer tells of; later ones are left out.
inline constexpr int kMostClientNodes = 2048;

/// A client's question about a job, and the answer. Errors of reading:
/// Errc::corrupt_file. Thread: any.
[[nodiscard]] std::string encode(const ClientQuestion& question);
[[nodiscard]] ClientQuestion decode_question(std::span<const std::byte> bytes);
[[nodiscard]] std::string encode(const ClientAnswer& answer);
[[nodiscard]] ClientAnswer decode_answer(std::span<const std::byte> bytes);

}  // namespace troupe::actors::wire
