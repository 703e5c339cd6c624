#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "config/config.h"
#include "kernels/core/tensor.h"

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
  /// here. No tensor if there is none.
  [[nodiscard]] Tensor take();

 private:
  std::uint64_t begin_;
  Tensor rows_;
  std::vector<bool> is_complete_;
};

}  // namespace troupe::actors
