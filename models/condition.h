#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/tensor.h"

namespace troupe::models {

/// A tensor that a network is conditioned on.
struct ConditionTensor {
  std::string name;
  Tensor tensor;            ///< on the host
  std::int64_t length = 0;  ///< items of the first axis; the rest is padding
};

/// What one branch of a sample is conditioned on: tensors by name, such as
/// "class_label" [1] i64 or "prompt_embeds" [L, D]. Conditions with equal
/// contents have equal hashes. Copies share the tensors.
class Condition {
 public:
  Condition() = default;
  /// The tensor "class_label" alone. The label num_classes means "no class":
  /// the unconditional branch of class-conditional networks.
  Condition(std::int64_t class_label);  // NOLINT(google-explicit-constructor)

  /// length < 0: the tensor has no padding. Errors: Errc::invalid_argument for
  /// a name that is there already, or a length beyond the first axis.
  void add(std::string name, Tensor tensor, std::int64_t length = -1);

  /// Null if there is no tensor of this name.
  [[nodiscard]] const ConditionTensor* find(std::string_view name) const;
  /// Errors: Errc::invalid_argument where there is no class label.
  [[nodiscard]] std::int64_t class_label() const;
  [[nodiscard]] const std::vector<ConditionTensor>& tensors() const noexcept {
    return tensors_;
  }
  /// Hash of all names, lengths, shapes, dtypes and bytes. It does not depend
  /// on the order of `add`.
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::vector<ConditionTensor> tensors_;  // by name
  std::uint64_t hash_ = 0;
};

/// The label of a condition for a network of the classes 0 to num_classes − 1,
/// where num_classes is "no class".
/// Errors: Errc::invalid_argument for another label, none, or a tensor beside
/// it.
[[nodiscard]] std::int64_t checked_class_label(const Condition& condition,
                                               std::int64_t num_classes);

/// A condition made ready for one network on one device. Immutable, shared.
class PreparedCondition {
 public:
  virtual ~PreparedCondition() = default;
  /// Bytes of the tensors that it keeps on the device.
  [[nodiscard]] virtual std::size_t num_bytes() const { return 0; }
};
using PreparedPtr = std::shared_ptr<const PreparedCondition>;

}  // namespace troupe::models
