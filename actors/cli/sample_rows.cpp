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

OrderedHash::OrderedHash(std::vector<std::uint64_t> indices)
    : indices_(std::move(indices)) {}

void OrderedHash::add(std::uint64_t index, const Tensor& tensor) {
  num_added_ += tensor.empty() ? 0 : 1;
  held_.insert_or_assign(index, tensor);
  while (next_ < indices_.size() && !held_.empty() &&
         held_.begin()->first == indices_[next_]) {
    hash_.update(std::as_const(held_.begin()->second).bytes());
    held_.erase(held_.begin());
    ++next_;
  }
}

std::string OrderedHash::finish() {
  for (const auto& [index, tensor] : std::exchange(held_, {})) {
    hash_.update(tensor.bytes());
  }
  next_ = indices_.size();
  return num_added_ == 0 ? std::string() : to_hex(hash_.digest());
}

}  // namespace troupe::actors
