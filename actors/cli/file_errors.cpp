#include <fmt/format.h>

#include <climits>
#include <cstdio>

#include "actors/artefacts/json_writer.h"
#include "actors/cli/verbs.h"

namespace troupe::actors {
namespace {

int rank_of(const Error& error) {
  if (error.code() == Errc::internal) {
    return INT_MAX;
  }
  // Bytes that differ say more than bytes that cannot be compared.
  return error.code() == Errc::another_class ? 2 * exit_code(Errc::mismatch) - 1
                                             : 2 * exit_code(error.code());
}

}  // namespace

void FileErrors::add(const Error& error) {
  std::fflush(stdout);  // what was found in the files before
  const std::string line = one_line(error);
  if (line != last_line_) {
    say(stderr, line);
  }
  last_line_ = line;
  if (!worst_ || rank_of(error) > rank_of(*worst_)) {
    worst_ = error;
  }
}

int FileErrors::finish(Invocation& invocation,
                       const nlohmann::ordered_json& found) const {
  RunSummary& summary = invocation.summary;
  if (worst_) {
    summary.status = "failed";
    summary.exit_code = exit_code(worst_->code());
  }
  invocation.take_last_word();
  if (invocation.config.json) {
    nlohmann::ordered_json json = envelope(summary);
    json.update(found);
    JsonWriter{json}(kErrorKey, worst_);
    fmt::print("{}\n", dump(json));
  }
  return summary.exit_code;
}

}  // namespace troupe::actors
