#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "kernels/core/value_channel.h"

namespace troupe::actors::wire {

/// The most bytes of a value.
inline constexpr std::size_t kMostParcelBytes = std::size_t{64} << 20U;
/// The most entries of all lists of a value; an empty one takes two bytes of it
/// and a hundred in memory.
inline constexpr int kMostParcelEntries = 1 << 16;

/// A parcel without the elements of its tensors, as troupe.wire.Parcel. Errors:
/// Errc::invalid_argument above kMostParcelBytes. Thread: any.
[[nodiscard]] std::string encode_outline(const Parcel& parcel);
/// Elements on the host, from an address that suits every dtype.
struct Elements {
  std::shared_ptr<std::byte> first;
  std::size_t num_bytes = 0;
};
/// The parcel of an outline, with the elements of its tensors in their order;
/// those are shared. An empty tensor has none. The parcel is well formed;
/// `unpack` says whether it is a value. Errors: Errc::corrupt_file. Thread:
/// any.
[[nodiscard]] Parcel decode_outline(std::span<const std::byte> outline,
                                    std::span<const Elements> elements);

}  // namespace troupe::actors::wire
