#include "samplers/parallel/packer.h"

#include <algorithm>
#include <utility>

namespace troupe::samplers {
namespace {

bool same_forward(const Task& a, const Task& b) {
  return a.op == b.op && (a.op != Op::segment || a.segment == b.segment);
}

}  // namespace

void Packer::push(BoundTask task) {
  switch (task.task.op) {
    case Op::evaluate:
    case Op::segment:
      forwards_.push_back(std::move(task));
      break;
    case Op::decode:
      decodes_.push_back(std::move(task));
      break;
    case Op::combine:
    case Op::step:
    case Op::sweep:
      cheap_.push_back(std::move(task));
      break;
  }
}

std::vector<BoundTask> Packer::next(int max_rows) {
  if (!cheap_.empty()) {
    return std::exchange(cheap_, {});
  }
  std::vector<BoundTask> group;
  if (!decodes_.empty()) {
    group.push_back(std::move(decodes_.front()));
    decodes_.pop_front();
    return group;
  }
  const auto limit = static_cast<std::size_t>(std::max(1, max_rows));
  std::deque<BoundTask> rest;
  for (BoundTask& waiting : forwards_) {
    if (group.empty() || (group.size() < limit &&
                          same_forward(group.front().task, waiting.task))) {
      group.push_back(std::move(waiting));
    } else {
      rest.push_back(std::move(waiting));
    }
  }
  forwards_ = std::move(rest);
  return group;
}

void Packer::remove(std::uint64_t sample_index) {
  const auto is_of_sample = [&](const BoundTask& bound) {
    return bound.sample_index == sample_index;
  };
  std::erase_if(cheap_, is_of_sample);
  std::erase_if(decodes_, is_of_sample);
  std::erase_if(forwards_, is_of_sample);
}

std::size_t Packer::size() const {
  return cheap_.size() + decodes_.size() + forwards_.size();
}

}  // namespace troupe::samplers
