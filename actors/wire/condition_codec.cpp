#include "actors/wire/condition_codec.h"

#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {
namespace {

namespace proto = troupe::wire;

constexpr int kMostTensors = 64;

std::int64_t checked_length(const proto::Condition::Tensor& from) {
  if (from.length() < 0 || from.length() > from.shape(0)) {
    refuse("condition " + in_quotes(from.name()) + ": a length of " +
           std::to_string(from.length()));
  }
  return from.length();
}

}  // namespace

std::string encode(const models::Condition& condition) {
  proto::Condition message;
  for (const models::ConditionTensor& item : condition.tensors()) {
    proto::Condition::Tensor& to = *message.add_tensors();
    to.set_name(item.name);
    to.set_length(item.length);
    put_tensor(item.tensor, to);
  }
  std::string bytes = message.SerializeAsString();
  require(bytes.size() <= kMostConditionBytes &&
              message.tensors_size() <= kMostTensors,
          Errc::invalid_argument, "condition",
          "too large: got " + std::to_string(bytes.size()) + " bytes");
  return bytes;
}

models::Condition decode_condition(std::span<const std::byte> bytes) {
  limit_fields(bytes, 1, kMostTensors);
  proto::Condition message;
  parse(bytes, kMostConditionBytes, message);
  refuse_unknown_fields(message);
  models::Condition condition;
  for (const proto::Condition::Tensor& from : message.tensors()) {
    if (condition.find(from.name()) != nullptr) {
      refuse("condition " + in_quotes(from.name()) + " is there twice");
    }
    condition.add(from.name(),
                  tensor_of("condition " + in_quotes(from.name()), from),
                  checked_length(from));
  }
  return condition;
}

}  // namespace troupe::actors::wire
