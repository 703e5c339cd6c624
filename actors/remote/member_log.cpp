#include "actors/remote/member_log.h"

#include "kernels/core/log.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// Makes a peer's text safe to print. A peer is not trusted.
std::string safe(const std::string& text) {
  constexpr std::size_t kLongest = 1024;
  return printable(text, kLongest);
}

const char* text_of(Rest rest) {
  return rest == Rest::works ? ", the job goes on without: "
                             : ", the job waits for workers: ";
}

/// What the link says of a process, without its name before that.
std::string reason_of(const std::string& what, int process) {
  const std::string left = "process " + std::to_string(process) + " left: ";
  return safe(what.starts_with(left) ? what.substr(left.size()) : what);
}

}  // namespace

std::string label_of(const Process& process) {
  return "process " + std::to_string(process.process) + " (" +
         safe(process.name) + ")";
}

void log_joined(const Process& process, const ProcessJoined& joined) {
  std::string devices;
  for (const DeviceMeans& one : joined.means.devices) {
    devices += (devices.empty() ? " on " : ", ") + safe(label_of(one));
  }
  log_message(LogLevel::info, label_of(process) + " has joined: " +
                                  counted(joined.workers.size(), "worker") +
                                  devices);
}

void log_refused(const std::string& who, const std::string& why) {
  log_message(LogLevel::warning, who + " is refused: " + safe(why));
}

void log_other_key(const std::string& address, bool has_keys) {
  log_refused("a process" + (address.empty() ? "" : " at " + safe(address)),
              has_keys ? "it has another company key, or none: give it the "
                         "file of this job's --secret-file"
                       : "it has a company key, and this job has none: give "
                         "both the same --secret-file");
}

void log_departure(const Departure& departure, const net::Loss& loss) {
  const std::string who = label_of(departure.of);
  const std::string why = reason_of(loss.what, departure.of.process);
  const bool has_left = loss.cause == net::LossCause::left;
  if (!departure.has_joined) {
    // One that stays for jobs asks again and again.
    log_message(
        departure.is_known ? LogLevel::info : LogLevel::warning,
        who + (has_left ? " does not join: " : " is lost before it joined: ") +
            why);
  } else if (has_left) {
    log_message(
        departure.rest == Rest::works ? LogLevel::info : LogLevel::warning,
        who + " has left" + text_of(departure.rest) + why);
  } else {
    log_message(LogLevel::warning,
                who + " is lost" + text_of(departure.rest) + why);
  }
}

void log_no_encoder(const Process& process, bool asks_another,
                    const std::string& why) {
  log_message(LogLevel::warning,
              label_of(process) + " does not encode the prompts, " +
                  (asks_another ? "another worker is asked: "
                                : "they wait for another worker: ") +
                  reason_of(why, process.process));
}

void log_lost_worker(const Process& of, Rest rest, const std::string& why) {
  log_message(LogLevel::warning, "a worker of " + label_of(of) + " is lost" +
                                     text_of(rest) + safe(why));
}

}  // namespace troupe::actors
