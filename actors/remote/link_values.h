#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "actors/link_table.h"
#include "actors/session.h"
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

/// The outline of a parcel of two tensors has fewer.
inline constexpr std::size_t kMostOutlineBytes = 1024;

/// What a peer asks for; nothing for what is no key.
[[nodiscard]] std::optional<ValueKey> key_of(std::string_view bytes);

/// A condition as a parcel, and back: an i64 tensor of lengths, then the
/// tensors. Both share them.
[[nodiscard]] Parcel parcel_of(const models::Condition& condition);
/// Errors: Errc::corrupt_file for what is no such parcel.
[[nodiscard]] models::Condition condition_of(const Parcel& parcel);
/// The most bytes of a condition: a prompt of 512 tokens has up to 8 MB.
inline constexpr std::size_t kMostConditionBytes = std::size_t{64} << 20U;

/// A pace as a value, and back: nothing for what is none.
[[nodiscard]] net::Value to_link(const LinkPace& pace);
[[nodiscard]] std::optional<LinkPace> pace_of(const net::Value& value);

}  // namespace troupe::actors
