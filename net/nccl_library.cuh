#pragma once

#include <nccl.h>

#include <memory>

namespace troupe::net {

/// The functions of NCCL that Troupe calls, and what keeps them loaded.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  std::shared_ptr<void> handle;
};

/// Errors: Errc::unsupported saying that the library is missing, and where it
/// was looked for, or that it is too old. Thread: any.
[[nodiscard]] NcclLibrary load_nccl();

}  // namespace troupe::net
