#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "kernels/core/hash.h"
#include "kernels/core/tensor.h"

// Parts of samples that a run keeps in memory.

namespace troupe::actors {

/// One f32 tensor with a row per sample, filled in any order: what --save
/// writes, in memory once. Rows that are never completed are left out.
/// Thread: one.
class SampleRows {
 public:
  /// Errors: Errc::out_of_memory.
  SampleRows(const config::SampleRange& samples, const Shape& row);

  /// The bytes of a sample's row; undefined until written.
  [[nodiscard]] std::span<std::byte> row(std::uint64_t index);
  /// The row counts from now on.
  void complete(std::uint64_t index);

  /// Bytes of the complete rows.
  [[nodiscard]] std::size_t num_bytes() const;

  /// The complete rows [m, …] in index order, moved together; nothing is left
  /// here. No tensor if no row is complete.
  [[nodiscard]] Tensor take();

 private:
  std::uint64_t begin_;
  Tensor rows_;
  std::vector<bool> is_complete_;
};

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
