#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "kernels/core/tensor_channel.h"

namespace troupe::net {

/// The tensor channel inside one process: hands the pointer over, copies
/// nothing.
class InprocTensorChannel final : public TensorChannel {
 public:
  void put(const TensorTag& tag, TensorPtr tensor) override;
  [[nodiscard]] std::optional<TensorPtr> try_take(
      const TensorTag& tag) override;
  void forget(std::uint32_t sample) override;
  /// Tags remembered at the moment, of tensors taken or not. Thread: any.
  [[nodiscard]] std::size_t num_tags() const;

 private:
  mutable std::mutex mutex_;
  // A taken tensor leaves a null pointer behind, against late duplicates.
  std::map<TensorTag, TensorPtr> arrived_;
};

}  // namespace troupe::net
