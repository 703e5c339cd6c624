#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "actors/cli/verbs.h"
#include "actors/remote/job_client.h"

namespace troupe::actors {

/// How long a job may take to answer a question.
inline constexpr auto kClientPatience = std::chrono::seconds(5);

/// Dials the job that listens at the verb's one argument, as a client with this
/// role. Errors: Errc::invalid_argument for another number of arguments and an
/// address that is none; those of hub_options.
[[nodiscard]] std::unique_ptr<JobClient> dial_job(const Invocation& invocation,
                                                  std::string_view role);

}  // namespace troupe::actors
