#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/core/context.h"

namespace troupe::models {

/// Tables that follow from the size of latents alone, such as positions: made
/// on the host when they are first asked for, and kept on the device. All
/// contexts are of one device. Thread: any.
class SizeTables {
 public:
  /// The f32 table of a key. `make` gives it, of this shape; a meter makes
  /// none.
  [[nodiscard]] Tensor of(ExecContext& ctx,
                          const std::vector<std::int64_t>& key,
                          const Shape& shape,
                          const std::function<Tensor()>& make) const;

 private:
  struct Tables {
    std::mutex mutex;
    std::map<std::vector<std::int64_t>, Tensor> known;
  };
  std::unique_ptr<Tables> tables_ = std::make_unique<Tables>();
};

}  // namespace troupe::models
