#pragma once

#include "actors/shells.h"

namespace troupe::actors {

/// Runs a job with the company that TROUPE_TEST_COMPANY names:
///   shared  as run_job does: one process with all values (the default)
///   stores  a process for each worker, values handed over
///   wire    a process for each worker and one for the coordinator; every
///           message and every value is encoded and read back on its way
///   links   a process for each worker and one for the coordinator, with links
///           between all of them, as with `troupe worker`
///   sockets the same over ipc; for benches
///   emulated  a modelled device for each worker, unlike the others, in virtual
///           time; for jobs on the CPU that nothing befalls
[[nodiscard]] JobResult run_in_suite(JobSpec spec);

/// Whether that is `shared`: every value is in the coordinator's process.
[[nodiscard]] bool is_one_process();

/// Those of `wire`.
[[nodiscard]] Detours wire_detours();

}  // namespace troupe::actors
