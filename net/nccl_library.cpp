#include "net/nccl_library.cuh"

#include <dlfcn.h>

#include <string>

#include "kernels/core/error.h"
#include "net/communicator.h"

namespace troupe::net {
namespace {

constexpr const char* kNcclHint =
    "install NCCL 2.20 or newer and put libnccl.so.2 on the loader's path "
    "(LD_LIBRARY_PATH)";

template <typename Function>
void find_function(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  require(function != nullptr, Errc::unsupported, kCommunicatorPlace,
          std::string("NCCL is too old: it has no ") + name, kNcclHint);
}

}  // namespace

NcclLibrary load_nccl() {
  // It stays once loaded: it has threads of its own.
  void* const handle =
      dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = dlerror();
    throw Error(Errc::unsupported, kCommunicatorPlace,
                std::string("NCCL cannot be loaded: ") +
                    (reason != nullptr ? reason : "no reason given"),
                kNcclHint);
  }
  NcclLibrary library{};
  library.handle = {handle, [](void* it) { dlclose(it); }};
  find_function(handle, "ncclGetVersion", library.get_version);
  int version = 0;
  require(library.get_version(&version) == ncclSuccess &&
              version >= NCCL_VERSION(2, 20, 0),
          Errc::unsupported, kCommunicatorPlace,
          "NCCL is too old: got version code " + std::to_string(version) +
              ", expected at least " + std::to_string(NCCL_VERSION(2, 20, 0)),
          kNcclHint);
  find_function(handle, "ncclGetUniqueId", library.get_unique_id);
  find_function(handle, "ncclCommInitRankConfig",
                library.comm_init_rank_config);
  find_function(handle, "ncclCommFinalize", library.comm_finalize);
  find_function(handle, "ncclCommDestroy", library.comm_destroy);
  find_function(handle, "ncclCommAbort", library.comm_abort);
  find_function(handle, "ncclCommGetAsyncError", library.comm_get_async_error);
  find_function(handle, "ncclGetErrorString", library.get_error_string);
  find_function(handle, "ncclGetLastError", library.get_last_error);
  find_function(handle, "ncclGroupStart", library.group_start);
  find_function(handle, "ncclGroupEnd", library.group_end);
  find_function(handle, "ncclSend", library.send);
  find_function(handle, "ncclRecv", library.receive);
  return library;
}

}  // namespace troupe::net
