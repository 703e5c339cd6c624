#include "models/condition.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::models {
namespace {

std::uint64_t hash_of(const std::vector<ConditionTensor>& tensors) {
  Xxh3Stream hash;
  const auto number = [&](std::int64_t value) {
    hash.update(std::as_bytes(std::span(&value, 1)));
  };
  for (const ConditionTensor& item : tensors) {
    number(static_cast<std::int64_t>(item.name.size()));
    hash.update(std::as_bytes(std::span(item.name)));
    number(item.length);
    number(static_cast<std::int64_t>(item.tensor.dtype()));
    number(static_cast<std::int64_t>(item.tensor.shape().rank()));
    for (const std::int64_t extent : item.tensor.shape().extents()) {
      number(extent);
    }
    hash.update(item.tensor.bytes());
  }
  return hash.digest();
}

}  // namespace

Condition::Condition(std::int64_t class_label) {
  Tensor label({1}, DType::i64);
  *label.data<std::int64_t>() = class_label;
  add("class_label", std::move(label));
}

void Condition::add(std::string name, Tensor tensor, std::int64_t length) {
  const std::int64_t extent =
      tensor.shape().rank() == 0 ? 0 : tensor.shape()[0];
  require(length <= extent, Errc::invalid_argument, name,
          "a condition longer than its tensor: got " + std::to_string(length) +
              ", expected at most " + std::to_string(extent));
  const auto at =
      std::ranges::lower_bound(tensors_, name, {}, &ConditionTensor::name);
  require(at == tensors_.end() || at->name != name, Errc::invalid_argument,
          name, "a condition has this tensor twice");
  tensors_.insert(
      at, {std::move(name), std::move(tensor), length < 0 ? extent : length});
  hash_ = hash_of(tensors_);
}

const ConditionTensor* Condition::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &ConditionTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

std::int64_t Condition::class_label() const {
  const ConditionTensor* label = find("class_label");
  require(label != nullptr && label->tensor.shape() == Shape{1} &&
              label->tensor.dtype() == DType::i64,
          Errc::invalid_argument, "class",
          "the network needs a condition with one class_label");
  return *label->tensor.data<std::int64_t>();
}

std::int64_t checked_class_label(const Condition& condition,
                                 std::int64_t num_classes) {
  const std::int64_t label = condition.class_label();
  require(condition.tensors().size() == 1, Errc::invalid_argument, "condition",
          "the network takes a class_label and nothing else");
  require(label >= 0 && label <= num_classes, Errc::invalid_argument, "class",
          "got " + std::to_string(label) + ", expected 0 to " +
              std::to_string(num_classes) + " (the last one is 'no class')",
          "choose another class");
  return label;
}

}  // namespace troupe::models
