#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/value_channel.h"
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
/// Before the key of a value that came damaged from its holder. The
/// coordinator's process then asks another one that holds it, if there is one.
inline constexpr std::string_view kAgain = "again/";

/// The key of a job's given latents, at its coordinator's process: a parcel of
/// one tensor.
inline constexpr std::string_view kLatentsKey = "init-latents";

}  // namespace troupe::actors
