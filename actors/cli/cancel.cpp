#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "actors/cli/dial_job.h"
#include "actors/cli/link_options.h"
#include "actors/cli/verbs.h"
#include "actors/remote/client_service.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// A result on its way home is waited for.
constexpr auto kSamplePatience = std::chrono::seconds(60);

}  // namespace

int run_cancel(Invocation& invocation) {
  const config::Config& config = invocation.config;
  const std::unique_ptr<JobClient> job = dial_job(invocation, kOwnerRole);
  const auto answer =
      config.cancels
          ? job->ask(CancelSample{*config.cancels}, kSamplePatience, {})
          : job->ask(AskStop{user_name()}, kClientPatience, {});
  const auto* granted = answer ? std::get_if<Granted>(&*answer) : nullptr;
  const std::string says =
      granted != nullptr ? granted->what : "the job is over";
  invocation.take_last_word();
  if (config.json) {
    nlohmann::ordered_json out = envelope(invocation.summary);
    out["message"] = says;
    say(stdout, dump(out));
  } else if (!config.quiet) {
    say(stdout, printable(says, kLongestLine));
  }
  return 0;
}

}  // namespace troupe::actors
