#include "actors/cli/dial_job.h"

#include "actors/cli/link_options.h"
#include "actors/cli/versions.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

/// Short enough that the program exits within 5 s if no job listens.
constexpr auto kDialTime = std::chrono::seconds(3);

}  // namespace

std::unique_ptr<JobClient> dial_job(const Invocation& invocation,
                                    std::string_view role) {
  const std::string& verb = invocation.summary.verb;
  require(!invocation.files.empty(), Errc::invalid_argument, verb,
          "missing: where the job listens",
          "troupe sample --listen ADDR says so when it begins");
  require(invocation.files.size() == 1, Errc::invalid_argument,
          invocation.files.back(), "one address is expected, and no more",
          "see troupe " + verb + " --help");
  const std::string& address = invocation.files.front();
  (void)checked_endpoint(invocation.config, address, verb);
  net::DialOptions dial = dial_options(invocation.config);
  dial.deadline = kDialTime;
  return std::make_unique<JobClient>(
      ClientSpec{.version = version(),
                 .name = process_name(),
                 .hub = hub_options(invocation.config, role),
                 .endpoint = address,
                 .place = verb,
                 .dial = dial});
}

}  // namespace troupe::actors
