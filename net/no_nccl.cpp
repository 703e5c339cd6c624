#include "kernels/core/error.h"
#include "net/nccl.h"

// A build without NCCL.

namespace troupe::net {
namespace {

[[noreturn]] void throw_no_nccl() {
  throw Error(Errc::unsupported, kCommunicatorPlace,
              "this build has no NCCL, which GPUs exchange bytes with",
              "build with the cuda preset where nccl.h is installed");
}

}  // namespace

NcclId make_nccl_id() { throw_no_nccl(); }

std::string nccl_version() { throw_no_nccl(); }

std::unique_ptr<NcclCommunicator> make_nccl_communicator(
    NcclOptions /*options*/) {
  throw_no_nccl();
}

}  // namespace troupe::net
