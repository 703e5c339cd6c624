#pragma once

#include <cstdint>
#include <string>

#include "actors/coordinator_events.h"
#include "actors/remote/member_list.h"
#include "net/link.h"

// What the log of the coordinator's process says of those who come and go.
// Thread: any.

namespace troupe::actors {

/// "process 1 (host:42)".
[[nodiscard]] std::string label_of(const Process& process);

/// Whether the job goes on without somebody.
enum class Rest : std::uint8_t {
  works,  ///< others compute
  waits,  ///< nobody is left: the job waits for workers
};

/// A process that is no more.
struct Departure {
  Process of;
  bool has_joined = false;  ///< it was at work
  bool is_known = false;    ///< one of this name did not join before
  Rest rest = Rest::works;
};

void log_joined(const Process& process, const ProcessJoined& joined);
void log_refused(const std::string& who, const std::string& why);
/// Of who dialled from a host (net::Greeting::address) and has not our key.
void log_other_key(const std::string& address, bool has_keys);
void log_departure(const Departure& departure, const net::Loss& loss);
/// Of one that was asked to encode the prompts, and has not.
/// `asks_another`: one that is here; else they wait for somebody to come.
void log_no_encoder(const Process& process, bool asks_another,
                    const std::string& why);
void log_lost_worker(const Process& of, Rest rest, const std::string& why);

}  // namespace troupe::actors
