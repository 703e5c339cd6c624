#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe::models {

/// A tensor that a network is conditioned on, with the length that counts.
struct ConditionTensor {
  std::string name;
  Tensor tensor;            ///< on the host
  std::int64_t length = 0;  ///< items of the first extent; padding follows
};

/// What one branch of a sample is conditioned on: tensors by name, such as
/// "class_label" [1] i64 or "prompt_embeds" [L, D]. Two that hold the same are
/// the same: they have one hash. A value; copies share the tensors.
class Condition {
 public:
  Condition() = default;
  /// "class_label"; num_classes (the "no class" row) is the unconditional
  /// branch of class-conditional networks.
  Condition(std::int64_t class_label);  // NOLINT(google-explicit-constructor)

  /// length < 0: the whole first extent. Errors: Errc::invalid_argument for a
  /// name twice, or a length that the tensor does not have.
  void add(std::string name, Tensor tensor, std::int64_t length = -1);

  /// Null: there is none of this name.
  [[nodiscard]] const ConditionTensor* find(std::string_view name) const;
  /// Errors: Errc::invalid_argument where there is none.
  [[nodiscard]] std::int64_t class_label() const;
  [[nodiscard]] const std::vector<ConditionTensor>& tensors() const noexcept {
    return tensors_;
  }
  /// Of all names, lengths, shapes, dtypes and bytes, whatever the order in
  /// which they were added.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::vector<ConditionTensor> tensors_;  // by name
  std::uint64_t hash_ = 0;
};

/// A condition made ready for one network on one device. Immutable, shared.
class PreparedCondition {
 public:
  virtual ~PreparedCondition() = default;
  /// Of tensors that it keeps on the device.
  [[nodiscard]] virtual std::size_t num_bytes() const { return 0; }
};
using PreparedPtr = std::shared_ptr<const PreparedCondition>;

}  // namespace troupe::models
