#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/cli/job_encoding.h"
#include "actors/cli/job_request.h"
#include "actors/job_record.h"

namespace troupe::actors {

/// The names of a request's execution classes, by number.
[[nodiscard]] std::vector<std::string> execution_classes(
    const JobRequest& request, std::uint64_t weights_hash);

/// The same classes as records, with their devices.
[[nodiscard]] std::vector<ClassRecord> class_records(
    const JobRequest& request, const std::vector<std::string>& names);

/// The draft of a request with all hashes. `classes`: those of
/// execution_classes.
[[nodiscard]] JobRecord record_of(const JobRequest& request,
                                  const JobConditions& conditions,
                                  std::uint64_t weights_hash,
                                  const std::vector<std::string>& classes);
/// The values that the record names by hash.
[[nodiscard]] JobValues values_of(const JobRequest& request,
                                  const JobConditions& conditions);

/// The conditions of a request. Prompts are encoded first, here or elsewhere,
/// and their encoders let go. Errors: those of `encode`.
[[nodiscard]] JobConditions conditions_of(const JobRequest& request,
                                          StopFlag& stop,
                                          const Elsewhere& elsewhere = {});

}  // namespace troupe::actors
