#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "actors/link_table.h"
#include "kernels/core/value_channel.h"
#include "models/condition.h"
#include "net/link.h"

// Values of a job as links carry them. Thread of all: any.

namespace troupe::actors {

/// A value as a link carries it: an outline, then the elements of each tensor,
/// from where they lie.
[[nodiscard]] net::Value to_link(const Parcel& parcel);
/// Shares what arrived. Errors: Errc::corrupt_file for what is no parcel.
[[nodiscard]] Parcel from_link(const net::Value& value);
/// Of its tensors.
[[nodiscard]] std::uint64_t num_bytes(const Parcel& parcel);

/// A question for a value, as the key of a link: the process that holds it, and
/// its name.
[[nodiscard]] std::string key_of(int holder, const ValueName& name);
[[nodiscard]] std::optional<std::pair<int, ValueName>> question_of(
    std::string_view key);
/// Prefix of the key of a value that came damaged from its holder. The
/// coordinator's process then asks another holder of the value, if it knows
/// one.
inline constexpr std::string_view kAgain = "again/";

/// The key of a condition of the job, by its hash, at the coordinator's
/// process.
[[nodiscard]] std::string key_of_condition(std::uint64_t hash);
/// The hash that such a key names; nothing for other keys.
[[nodiscard]] std::optional<std::uint64_t> condition_asked(
    std::string_view key);
/// A condition as a parcel, and back: an i64 tensor of lengths, then the
/// tensors. Both share them.
[[nodiscard]] Parcel parcel_of(const models::Condition& condition);
/// Errors: Errc::corrupt_file for what is no such parcel.
[[nodiscard]] models::Condition condition_of(const Parcel& parcel);
/// The most bytes of a condition: a prompt of 512 tokens has up to 8 MB.
inline constexpr std::size_t kMostConditionBytes = std::size_t{64} << 20U;

/// The key of a value without meaning of so many bytes, which any process gives
/// at once: it measures the link.
[[nodiscard]] std::string key_of_probe(std::size_t bytes);
/// The bytes that such a key asks for; nothing for other keys, and for more
/// than kMostProbeBytes.
[[nodiscard]] std::optional<std::size_t> probe_asked(std::string_view key);
inline constexpr std::size_t kMostProbeBytes = std::size_t{1} << 20U;

/// The key of how fast values of `process` come to the process that is asked,
/// which measures it then (LinkChannel::measure).
[[nodiscard]] std::string key_of_pace(int process);
/// The process that such a key names; nothing for other keys.
[[nodiscard]] std::optional<int> pace_asked(std::string_view key);
/// A pace as a value, and back: nothing for what is none.
[[nodiscard]] net::Value to_link(const LinkPace& pace);
[[nodiscard]] std::optional<LinkPace> pace_of(const net::Value& value);

/// The key of a job's given latents, at its coordinator's process: a parcel of
/// one tensor.
inline constexpr std::string_view kLatentsKey = "init-latents";

}  // namespace troupe::actors
