#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "kernels/core/tensor.h"

namespace troupe {

/// Names one tensor that is sent. Unique within a job.
struct TensorTag {
  std::uint32_t sample = 0;
  std::uint32_t slot = 0;
  std::uint64_t version = 0;

  friend auto operator<=>(const TensorTag&, const TensorTag&) = default;
};

/// Port: sends tensors. A tensor that was put under a tag can be taken once
/// under that tag. A second `put` of a tag is dropped, also after the taking
/// (tasks are pure, so its bytes are the same).
class TensorChannel {
 public:
  virtual ~TensorChannel() = default;
  /// Thread: any.
  virtual void put(const TensorTag& tag, TensorPtr tensor) = 0;
  /// Takes the tensor if it has arrived. Thread: any.
  [[nodiscard]] virtual std::optional<TensorPtr> try_take(
      const TensorTag& tag) = 0;
  /// Drops the tensors of `sample` and forgets its tags, so that the memory of
  /// a long job does not grow. To be called when nothing of the sample is still
  /// being sent.
  /// Thread: any.
  virtual void forget(std::uint32_t sample) = 0;
};

/// Holds every tensor back until a test delivers it. Thread: one.
class ManualTensorChannel final : public TensorChannel {
 public:
  void put(const TensorTag& tag, TensorPtr tensor) override;
  [[nodiscard]] std::optional<TensorPtr> try_take(
      const TensorTag& tag) override;
  void forget(std::uint32_t sample) override;
  /// Delivers one tensor; false when none is held under that tag.
  bool deliver(const TensorTag& tag);
  [[nodiscard]] std::size_t held() const noexcept { return held_.size(); }

 private:
  std::map<TensorTag, TensorPtr> held_;
  std::map<TensorTag, TensorPtr> arrived_;
  std::set<TensorTag> seen_;
};

}  // namespace troupe
