#include "actors/cli/ordered_hash.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::actors {

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
