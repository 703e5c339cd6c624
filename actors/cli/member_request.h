#pragma once

#include <cstdint>
#include <string>

#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/remote/company_member.h"
#include "actors/session.h"
#include "config/config.h"

namespace troupe::actors {

/// Whether neither --model nor --model-root of the process names a folder with
/// the job's model.
[[nodiscard]] bool lacks_model(const config::Config& config,
                               const JobRecord& job);

/// Whether the folder of --model holds the job's model, in configurations and
/// weights. What cannot be read is not the job's. Errors: those of
/// StopFlag::check.
[[nodiscard]] bool has_model(const config::Config& config, const JobRecord& job,
                             StopFlag& stop);

/// The workers that the process has for a job with work for all of them.
/// Errors: those of choose_devices.
[[nodiscard]] config::WorkerCount workers_of_member(
    const config::Config& config);

/// The folder of the model that another process names. Errors:
/// Errc::invalid_argument where the process names none that it may lie in.
[[nodiscard]] std::string folder_of(const config::Config& config,
                                    const std::string& name);

/// The model that another process names: one of our bundled shapes, or a folder
/// of this process. Errors: those of folder_of and ModelSource::open.
[[nodiscard]] ModelSource open_model(const config::Config& own,
                                     const std::string& name, bool is_bundled);

enum class Reading : std::uint8_t { what_is_used, all };

/// An offered job as a request of this process: its own model folder, devices
/// and cores, and all that decides bytes from the job. Holds the processor to
/// the level of the job's class, if it has it. `config` is the worker verb's.
/// `reading`: whether all weights are read, or only those that it computes with
/// where the job says what each tensor is.
/// Errors: as make_request; Errc::invalid_argument for a folder with another
/// model, or with none of the job's name.
[[nodiscard]] JobRequest member_request(
    const config::Config& config, const JobRecord& job,
    Reading reading = Reading::what_is_used);

/// What the process computes the job with.
/// Errors: Errc::invalid_argument for a model with other weights; those of
/// make_parts.
[[nodiscard]] MemberJob member_job(const Offer& offer, const JobValues& values,
                                   const JobRequest& request,
                                   const JobRunner& runner);

}  // namespace troupe::actors
