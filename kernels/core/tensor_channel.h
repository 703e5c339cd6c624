#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "kernels/core/tensor.h"

namespace troupe {

/// Names one tensor on its way: unique within a job.
struct TensorTag {
  std::uint32_t sample = 0;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;

  friend auto operator<=>(const TensorTag&, const TensorTag&) = default;
};

/// Port: where tensors go. A tensor put under a tag is delivered once to the
/// taker of that tag; a second put of the same tag is dropped, before and
/// after the taking (tasks are pure, so its bytes are the same).
class TensorChannel {
 public:
  virtual ~TensorChannel() = default;
  /// Thread: any.
  virtual void put(const TensorTag& tag, TensorPtr tensor) = 0;
  /// Takes the tensor if it has arrived. Thread: any.
  [[nodiscard]] virtual std::optional<TensorPtr> try_take(
      const TensorTag& tag) = 0;
  /// Drops the tensors of `sample` and the memory of its tags, so that a long
  /// job does not grow: call it once nothing of the sample is on its way.
  /// Thread: any.
  virtual void forget(std::uint32_t sample) = 0;
};

/// Holds everything back until the test releases it. Thread: one.
class ManualTensorChannel final : public TensorChannel {
 public:
  void put(const TensorTag& tag, TensorPtr tensor) override;
  [[nodiscard]] std::optional<TensorPtr> try_take(
      const TensorTag& tag) override;
  void forget(std::uint32_t sample) override;
  /// Lets one tensor through; false when none is held under that tag.
  bool deliver(const TensorTag& tag);
  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

 private:
  std::map<TensorTag, TensorPtr> held_;
  std::map<TensorTag, TensorPtr> arrived_;
  std::set<TensorTag> seen_;
};

}  // namespace troupe
