#include "actors/cli/job_of_request.h"

#include "actors/cli/execution_class.h"

namespace troupe::actors {
namespace {

/// A network without classes reads no label.
JobConditions class_conditions(const JobRequest& request) {
  JobConditions conditions;
  for (const std::int64_t id : request.classes) {
    conditions.each.emplace_back(id);
  }
  const std::int64_t num_classes = request.source.info(DType::f32).num_classes;
  if (request.job.guidance.is_on() && num_classes > 0) {
    conditions.unconditional.emplace_back(num_classes);
  }
  return conditions;
}

}  // namespace

std::vector<ClassRecord> class_records(const JobRequest& request,
                                       const std::vector<std::string>& names) {
  std::vector<ClassRecord> records;
  for (std::size_t number = 0; number < names.size(); ++number) {
    const JobDevice& by = request.device_of(static_cast<int>(number));
    records.push_back(by.class_record(names[number]));
  }
  return records;
}

std::vector<std::string> execution_classes(const JobRequest& request,
                                           std::uint64_t weights_hash) {
  std::vector<std::string> classes;
  for (const JobDevice& device : request.devices) {
    if (device.execution_class == static_cast<int>(classes.size())) {
      classes.push_back(execution_class(execution_conditions(
          weights_hash, device, request.job.method, request.job.ring_blocks)));
    }
  }
  return classes;
}

JobConditions conditions_of(const JobRequest& request, StopFlag& stop,
                            const Elsewhere& elsewhere) {
  if (request.prompts.empty()) {
    return class_conditions(request);
  }
  return encode(request.prompts, request.encoder.device, stop,
                request.source.side_adder(), request.encoder_kind, elsewhere);
}

JobRecord record_of(const JobRequest& request, const JobConditions& conditions,
                    std::uint64_t weights_hash,
                    const std::vector<std::string>& classes) {
  JobRecord job = request.job;
  job.model = request.source.record(weights_hash);
  job.conditions.clear();
  job.unconditional.clear();
  for (const StoredCondition& condition : conditions.each) {
    job.conditions.push_back(condition.hash());
  }
  for (const StoredCondition& condition : conditions.unconditional) {
    job.unconditional.push_back(condition.hash());
  }
  job.execution_classes = class_records(request, classes);
  return job;
}

JobValues values_of(const JobRequest& request,
                    const JobConditions& conditions) {
  JobValues values;
  for (const auto* branch : {&conditions.each, &conditions.unconditional}) {
    for (const StoredCondition& condition : *branch) {
      if (condition.hash() != 0) {
        values.conditions.emplace(condition.hash(), condition);
      }
    }
  }
  values.init_latents = request.init_latents;
  values.guesses = request.guesses;
  return values;
}

}  // namespace troupe::actors
