#include "actors/artefacts/summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/artefacts/json_writer.h"
#include "kernels/core/text.h"

namespace troupe::actors {

using nlohmann::ordered_json;

std::int64_t whole_rows(double rows) {
  constexpr double kMost = 9e18;
  return std::llround(std::min(rows, kMost));
}

ordered_json envelope(const RunSummary& summary) {
  ordered_json out;
  JsonWriter writer(out);
  visit_envelope(writer, summary);
  return out;
}

std::string to_json(const RunSummary& summary) {
  return dump(document(summary, summary));
}

std::string failure_json(RunSummary summary, const Error& error) {
  const bool stopped =
      error.code() == Errc::terminated || error.code() == Errc::interrupted;
  summary.status = error.code() == Errc::cancelled ? "cancelled"
                   : stopped                       ? "stopped"
                                                   : "failed";
  summary.exit_code = exit_code(error.code());
  ordered_json out =
      summary.verb == "sample" ? document(summary, summary) : envelope(summary);
  JsonWriter{out}(kErrorKey, error);
  return dump(out);
}

void say(std::FILE* to, const std::string& line) {
  const std::string text = line + "\n";
  (void)std::fwrite(text.data(), 1, text.size(), to);
}

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string one_line(const Error& error) {
  // A path alone may have 4096 bytes; what is wrong with it must still be seen.
  constexpr std::size_t kLongestPlace = 500;
  constexpr std::size_t kLongestMessage = 1000;
  constexpr std::size_t kLongestHint = 400;
  std::string line = "troupe: [" + printable(error.place(), kLongestPlace) +
                     "] " + printable(error.message(), kLongestMessage);
  if (!error.hint().empty()) {
    line += "; " + printable(error.hint(), kLongestHint);
  }
  return line;
}

}  // namespace troupe::actors
