#include "actors/wire/parcel_codec.h"

#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"

namespace troupe::actors::wire {

namespace proto = troupe::wire;

std::string encode(const Parcel& parcel) {
  proto::Parcel message;
  message.mutable_tensors()->Reserve(static_cast<int>(parcel.size()));
  for (const NamedTensor& named : parcel) {
    put_named(named, *message.add_tensors());
  }
  return bytes_of(message, kMostParcelBytes);
}

Parcel decode_parcel(std::span<const std::byte> bytes) {
  limit_fields(bytes, 1, kMostParcelEntries);
  proto::Parcel message;
  parse(bytes, kMostParcelBytes, message);
  refuse_unknown_fields(message);
  Parcel parcel;
  parcel.reserve(static_cast<std::size_t>(message.tensors_size()));
  for (const proto::Tensor& from : message.tensors()) {
    parcel.push_back(named_of(from));
  }
  return parcel;
}

}  // namespace troupe::actors::wire
