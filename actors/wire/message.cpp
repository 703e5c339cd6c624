#include "actors/wire/message.h"

#include <google/protobuf/stubs/logging.h>

#include "kernels/core/error.h"

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

}  // namespace troupe::actors::wire
