#include <chrono>
#include <cstdio>
#include <string>

#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/link_options.h"
#include "actors/cli/verbs.h"
#include "actors/remote/client_service.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// A result on its way home is waited for.
constexpr auto kSamplePatience = std::chrono::seconds(60);

struct Answer {
  std::string message;
};

void visit_fields(auto& visit, AnyConst<Answer> auto& r) {
  visit({"message", "what was cancelled, or why there was nothing"}, r.message);
}

}  // namespace

std::vector<JsonField> cancel_json_fields() { return json_rows_of<Answer>(); }

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
    say(stdout, dump(document(invocation.summary, Answer{says})));
  } else if (!config.quiet) {
    say(stdout, printable(says, kLongestLine));
  }
  return 0;
}

}  // namespace troupe::actors
