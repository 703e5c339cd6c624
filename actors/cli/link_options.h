#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "actors/cli/verbs.h"
#include "actors/remote/job_client.h"
#include "config/config.h"
#include "net/endpoint.h"
#include "net/link.h"

namespace troupe::actors {

/// Roles of processes in a company, as greetings name them.
inline constexpr std::string_view kCoordinatorRole = "coordinator";
inline constexpr std::string_view kWorkerRole = "worker";

/// Whether the process lets others compute and does not itself: --workers 0 by
/// name, where it listens.
[[nodiscard]] bool only_directs(const config::Config& config);

/// The hub of a process that has this role, with the keys of --secret-file: one
/// of kCoordinatorRole, kWorkerRole, and the roles of clients. All of a company
/// may look; the coordinator's key alone directs and cancels.
/// Errors: those of net::read_keys.
[[nodiscard]] net::HubOptions hub_options(const config::Config& config,
                                          std::string_view role);
/// An address that a person gave. Errors: Errc::invalid_argument at `place`
/// (where that was), also for one that other machines reach where there are no
/// keys.
[[nodiscard]] net::Endpoint checked_endpoint(const config::Config& config,
                                             const std::string& text,
                                             const std::string& place);
/// Refuses what options of `sample` for several machines cannot mean, before
/// work starts. Errors: Errc::invalid_argument; those of net::read_keys.
void check_listening(const config::Config& config);
/// How a worker knows the coordinator: by its public key, if there are keys.
[[nodiscard]] net::DialOptions dial_options(const config::Config& config);

/// "host:1234": this process, for people.
[[nodiscard]] std::string process_name();
/// "ann": whose process this is, for people; its number where it has no name.
[[nodiscard]] std::string user_name();

/// How long a job may take to answer a question.
inline constexpr auto kClientPatience = std::chrono::seconds(5);

/// Dials the job that listens at the verb's one argument, as a client with this
/// role. Errors: Errc::invalid_argument for another number of arguments and an
/// address that is none; those of hub_options.
[[nodiscard]] std::unique_ptr<JobClient> dial_job(const Invocation& invocation,
                                                  std::string_view role);

}  // namespace troupe::actors
