#include "actors/wire/message.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {

void refuse(const std::string& what) {
  throw Error(Errc::corrupt_file, "record", what,
              "it was changed or cut on its way, or comes from another Troupe");
}

void refuse_unknown_fields(const google::protobuf::Message& message) {
  if (!message.GetReflection()->GetUnknownFields(message).empty()) {
    refuse(message.GetDescriptor()->name() +
           " has a field that this Troupe does not know: a newer one wrote it");
  }
}

void parse(std::span<const std::byte> bytes, std::size_t most,
           google::protobuf::Message& message) {
  // A library of ours prints nothing: what is wrong is thrown.
  static const auto quiet = google::protobuf::SetLogHandler(nullptr);
  (void)quiet;
  if (bytes.size() > most) {
    refuse("got " + std::to_string(bytes.size()) + " bytes, expected at most " +
           std::to_string(most));
  }
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    refuse("its bytes are no " + message.GetDescriptor()->full_name());
  }
}

Tensor tensor_of(const std::string& what, const std::string& dtype,
                 std::span<const std::int64_t> shape, const std::string& data) {
  const std::vector<std::string>& names = config::names_of<DType>();
  const auto found = std::ranges::find(names, dtype);
  if (found == names.end()) {
    refuse(what + ": got dtype " + in_quotes(dtype));
  }
  const auto kind = static_cast<DType>(found - names.begin());
  // By division: a product of hostile extents may overflow.
  std::uint64_t left = data.size() / size_of(kind);
  bool fits = data.size() % size_of(kind) == 0 && !shape.empty() &&
              shape.size() <= Shape::kMaxRank;
  for (const std::int64_t extent : shape) {
    fits =
        fits && extent >= 1 && left % static_cast<std::uint64_t>(extent) == 0;
    left = fits ? left / static_cast<std::uint64_t>(extent) : left;
  }
  if (!fits || left != 1) {
    refuse(what + ": got " + std::to_string(data.size()) +
           " bytes, expected those of its shape");
  }
  Tensor tensor{Shape(shape), kind};
  std::memcpy(tensor.bytes().data(), data.data(), data.size());
  return tensor;
}

}  // namespace troupe::actors::wire
