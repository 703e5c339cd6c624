#pragma once

#include <mutex>
#include <string_view>
#include <vector>

#include "actors/job_record.h"

namespace troupe::actors {

/// Whether it names an execution class: sixteen hexadecimal digits, as to_hex
/// writes them.
[[nodiscard]] bool is_class_name(std::string_view name);

/// The execution classes of a job that runs, by number: first the classes of
/// its record, then new classes of processes that join. Numbers never change.
/// Thread: any.
class JobClasses {
 public:
  explicit JobClasses(std::vector<ClassRecord> own);

  [[nodiscard]] int size() const;
  /// Errors: Errc::internal for a number that was not given.
  [[nodiscard]] ClassRecord at(int number) const;
  /// The number of the class with this name; a new one gets the next.
  [[nodiscard]] int number_of(const ClassRecord& one);

 private:
  mutable std::mutex mutex_;
  std::vector<ClassRecord> classes_;
};

}  // namespace troupe::actors
