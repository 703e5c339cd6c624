#include "actors/cli/sample_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::actors {

SampleRows::SampleRows(const config::SampleRange& samples, const Shape& row)
    : begin_(samples.begin),
      rows_(with_rows(static_cast<std::int64_t>(samples.size()), row),
            DType::f32),
      is_complete_(samples.size(), false) {}

std::span<std::byte> SampleRows::row(std::uint64_t index) {
  const std::size_t size = rows_.num_bytes() / is_complete_.size();
  return rows_.bytes().subspan(static_cast<std::size_t>(index - begin_) * size,
                               size);
}

void SampleRows::complete(std::uint64_t index) {
  is_complete_[static_cast<std::size_t>(index - begin_)] = true;
}

std::size_t SampleRows::num_bytes() const {
  return rows_.num_bytes() / is_complete_.size() *
         static_cast<std::size_t>(std::ranges::count(is_complete_, true));
}

Tensor SampleRows::take() {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < is_complete_.size(); ++i) {
    if (is_complete_[i]) {
      const auto from = row(begin_ + i);
      std::memmove(row(begin_ + count).data(), from.data(), from.size());
      ++count;
    }
  }
  is_complete_.assign(is_complete_.size(), false);
  Tensor all = std::exchange(rows_, {});
  return count == 0 ? Tensor() : all.slice(0, static_cast<std::int64_t>(count));
}

}  // namespace troupe::actors
