#include "actors/cli/encoding_company.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/cli/link_options.h"
#include "actors/cli/versions.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "kernels/core/pool.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {
namespace {

/// Why what a process encoded is not that of the job's encoders; nothing: it
/// is. `own`: 0 for weights that were not read.
std::optional<std::string> other_weights(
    const EncodingRecord& record, const std::vector<std::uint64_t>& own,
    const std::vector<std::uint64_t>& its) {
  for (std::size_t e = 0; e < own.size(); ++e) {
    if (own[e] != 0 && own[e] != its[e]) {
      return fmt::format(
          "other weights of {} than the job's: got {}, "
          "expected {}",
          record.encoders[e].name, to_hex(its[e]), to_hex(own[e]));
    }
  }
  return std::nullopt;
}

std::vector<EncoderShape> shapes_of(PromptEncoders encoders) {
  std::vector<EncoderShape> shapes;
  for (const PromptEncoderSource& encoder : encoders) {
    shapes.push_back(
        {encoder.description->width(), encoder.description->pooled_width()});
  }
  return shapes;
}

/// "1 worker process", "4 worker processes".
std::string worker_processes(std::size_t count) {
  return std::to_string(count) + " worker process" + (count == 1 ? "" : "es");
}

/// When so many seconds will have passed, by the clock on the wall.
std::string time_in(double seconds) {
  constexpr double kSoon = 12 * 3600;
  const std::time_t then =
      std::time(nullptr) + static_cast<std::time_t>(std::llround(seconds));
  const std::tm local = fmt::localtime(then);
  return seconds < kSoon ? fmt::format("{:%H:%M:%S}", local)
                         : fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace

EncodingCompany::EncodingCompany(const config::Config& config,
                                 const JobRequest& request, StopFlag& stop,
                                 std::function<void(const std::string&)> cancel)
    : config_(config),
      request_(request),
      stop_(stop),
      clients_({.version = version(),
                .status = [this] { return status(); },
                .cancel = std::move(cancel),
                .begin = request.job.begin,
                .end = request.job.end}),
      begun_(SteadyClock().now()) {
  const auto& wait = config.wait_workers;
  if (wait && wait->seconds) {
    deadline_ = begun_ + std::chrono::duration_cast<Duration>(
                             std::chrono::duration<double>(*wait->seconds));
  }
  if (wait || request.is_method_open()) {
    listen(awaited());
  }
}

/// Without any worker there is nothing to choose a method by.
bool EncodingCompany::needs_one() const {
  return request_.only_directs && request_.is_method_open();
}

/// Whether the job waits for more where so many processes are here.
bool EncodingCompany::waits_with(std::size_t here) const {
  const auto& wait = config_.wait_workers;
  const bool is_in_time = !deadline_ || SteadyClock().now() < *deadline_;
  const bool lacks_some =
      wait && (wait->processes == 0 ||
               here < static_cast<std::size_t>(wait->processes));
  return (lacks_some && is_in_time) || (needs_one() && here == 0);
}

/// What the job waits for, and until when.
std::string EncodingCompany::awaited() const {
  const auto& wait = config_.wait_workers;
  if (!wait && !needs_one()) {
    return "workers that come before the job begins count for --method auto";
  }
  const int processes = wait ? wait->processes : 1;
  std::string text =
      "waiting for " +
      (processes > 0 ? worker_processes(static_cast<std::size_t>(processes))
                     : std::string("worker processes"));
  if (!deadline_) {
    return text + ", however long that takes";
  }
  text += " until " + time_in(*wait->seconds);
  return needs_one() ? text + ", and then for the first one" : text;
}

void EncodingCompany::listen(const std::string& why) {
  listener_ = std::make_unique<EncodingListener>(
      EncodingListenerSpec{.version = version(),
                           .hub = hub_options(config_, kCoordinatorRole),
                           .endpoint = config_.listen,
                           .place = config_.place_of("listen"),
                           .clients = &clients_});
  listening_ = listener_.get();
  tell(fmt::format("listening at {}: {}", listener_->endpoint(), why));
}

void EncodingCompany::tell(const std::string& what) const {
  if (!config_.quiet) {
    say(stderr, "troupe: " + what);
  }
}

config::WorkerCount EncodingCompany::gather() {
  if (!listener_) {
    return {};
  }
  gathers_ = true;
  std::size_t here = listener_->processes().size();
  while (waits_with(here)) {
    const bool has_deadline = deadline_ && SteadyClock().now() < *deadline_;
    const std::size_t now = listener_->await_other_number(
        here, has_deadline ? deadline_ : std::nullopt, stop_.token());
    stop_.check("sample", "stopped while the job waited for workers");
    if (now != here) {
      here = now;
      tell(fmt::format("{} here", worker_processes(here)));
    }
  }
  gathers_ = false;
  return listener_->workers();
}

EncodingCompany::~EncodingCompany() {
  listening_ = nullptr;
  listener_.reset();
}

Elsewhere EncodingCompany::elsewhere() {
  if (!request_.encodes_elsewhere) {
    return {};
  }
  return [this](const EncodingRecord& record, PromptEncoders encoders) {
    return encode(record, encoders);
  };
}

EncodedElsewhere EncodingCompany::encode(const EncodingRecord& record,
                                         PromptEncoders encoders) {
  require(record.texts.size() <= kMostEncodingTexts, Errc::invalid_argument,
          config_.place_of("encode-on"),
          fmt::format("too many prompts for a worker: got {} texts, expected "
                      "at most {}",
                      record.texts.size(), kMostEncodingTexts),
          "split the prompts over several runs");
  constexpr const char* kWhy = "a worker that comes is to encode the prompts";
  if (listener_) {
    tell(kWhy);
  } else {
    listen(kWhy);
  }
  listener_->ask_for(record, shapes_of(encoders));
  // Meanwhile: a worker has the same configuration, and may have other weights.
  ExecContext ctx(num_usable_cores());
  const std::stop_callback action(stop_.token(),
                                  [&ctx] { ctx.request_stop(); });
  const std::vector<std::uint64_t> own =
      read_encoder_hashes(ctx, record, encoders);
  for (;;) {
    EncodedElsewhere its = listener_->wait(stop_.token());
    const auto why = other_weights(record, own, its.encoded.weights_xxh3);
    if (!why) {
      return its;
    }
    listener_->refuse(*why);
  }
}

void EncodingCompany::dismiss(config::Config& config) {
  if (listener_) {
    config.listen = listener_->endpoint();
    listener_->dismiss();
    listening_ = nullptr;
    listener_.reset();
  }
}

JobStatus EncodingCompany::status() const {
  JobStatus status{
      .model = request_.source.name(),
      .method = request_.is_method_open() ? "auto"
                                          : to_string(request_.job.method.kind),
      .progress = {.samples_total = request_.num_samples()},
      .elapsed_seconds =
          std::chrono::duration<double>(SteadyClock().now() - begun_).count()};
  std::vector<Process>& nodes = status.progress.processes;
  nodes = {{.name = process_name()}};
  if (const EncodingListener* const listener = listening_) {
    const std::optional<int> encoder = listener->encoder();
    for (Process process : listener->processes()) {
      if (process.process == encoder) {
        process.status = "encodes";
      }
      nodes.push_back(std::move(process));
    }
    status.progress.waits_for_workers = gathers_ || listener->waits();
  }
  return status;
}

}  // namespace troupe::actors
