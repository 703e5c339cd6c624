#include "actors/wire/parcel_codec.h"

#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"

namespace troupe::actors::wire {

namespace proto = troupe::wire;

std::string encode_outline(const Parcel& parcel) {
  proto::Parcel message;
  for (const NamedTensor& named : parcel) {
    proto::Tensor& to = *message.add_tensors();
    to.set_name(named.name);
    if (!named.tensor.empty()) {
      to.set_dtype(config::name_of(named.tensor.dtype()));
      for (const std::int64_t extent : named.tensor.shape().extents()) {
        to.add_shape(extent);
      }
    }
  }
  return bytes_of(message, kMostParcelBytes);
}

Parcel decode_outline(std::span<const std::byte> outline,
                      std::span<const Elements> elements) {
  limit_fields(outline, 1, kMostParcelEntries);
  proto::Parcel message;
  parse(outline, kMostParcelBytes, message);
  refuse_unknown_fields(message);
  Parcel parcel;
  parcel.reserve(static_cast<std::size_t>(message.tensors_size()));
  std::size_t next = 0;
  for (const proto::Tensor& from : message.tensors()) {
    if (!from.data().empty()) {
      refuse("tensor " + in_quotes(from.name()) +
             " has elements in an outline");
    }
    if (from.shape().empty()) {
      parcel.push_back({from.name(), {}});
      continue;
    }
    if (next == elements.size()) {
      refuse("tensor " + in_quotes(from.name()) + " has no elements");
    }
    const Elements& its = elements[next++];
    const auto rank = static_cast<std::size_t>(from.shape_size());
    parcel.push_back(
        {from.name(),
         view_of("tensor " + in_quotes(from.name()), from.dtype(),
                 {from.shape().data(), rank}, its.first, its.num_bytes)});
  }
  if (next != elements.size()) {
    refuse("elements of " + std::to_string(elements.size()) +
           " tensors, expected " + std::to_string(next));
  }
  return parcel;
}

}  // namespace troupe::actors::wire
