#include "actors/job_classes.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::actors {

bool is_class_name(std::string_view name) {
  constexpr std::size_t kDigits = 16;
  return name.size() == kDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

JobClasses::JobClasses(std::vector<ClassRecord> own)
    : classes_(std::move(own)) {}

int JobClasses::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(classes_.size());
}

ClassRecord JobClasses::at(int number) const {
  const std::lock_guard lock(mutex_);
  require(number >= 0 && number < static_cast<int>(classes_.size()),
          Errc::internal, "execution class",
          "got number " + std::to_string(number) + " of " +
              std::to_string(classes_.size()));
  return classes_[static_cast<std::size_t>(number)];
}

int JobClasses::number_of(const ClassRecord& one) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(classes_, one.name, &ClassRecord::name);
  if (found == classes_.end()) {
    classes_.push_back(one);
    return static_cast<int>(classes_.size()) - 1;
  }
  return static_cast<int>(found - classes_.begin());
}

}  // namespace troupe::actors
