#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/hash.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// XXH3-64 over tensors in index order, which arrive in any order. Holds a
/// tensor only until all lower indices have arrived.
/// Thread: one.
class OrderedHash {
 public:
  /// `indices`: all that may come, ascending.
  explicit OrderedHash(std::vector<std::uint64_t> indices);

  void add(std::uint64_t index, const Tensor& tensor);
  /// Nothing will come for `index`.
  void pass(std::uint64_t index) { add(index, {}); }

  /// Tensors that came.
  [[nodiscard]] std::size_t num_added() const noexcept { return num_added_; }
  /// Over all that came; what never came is passed. Empty if nothing came.
  [[nodiscard]] std::string finish();

 private:
  std::vector<std::uint64_t> indices_;
  std::size_t next_ = 0;                  ///< position in indices_
  std::map<std::uint64_t, Tensor> held_;  ///< empty: passed
  std::size_t num_added_ = 0;
  Xxh3Stream hash_;
};

}  // namespace troupe::actors
