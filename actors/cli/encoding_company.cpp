#include "actors/cli/encoding_company.h"

#include <fmt/format.h>

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
#include "kernels/core/system.h"

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
                .begin = request.samples.begin,
                .end = request.samples.end}),
      begun_(SteadyClock().now()) {}

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
  listener_ = std::make_unique<EncodingListener>(
      EncodingListenerSpec{.version = version(),
                           .hub = hub_options(config_, kCoordinatorRole),
                           .endpoint = config_.listen,
                           .place = config_.place_of("listen"),
                           .record = record,
                           .shapes = shapes_of(encoders),
                           .clients = &clients_});
  listening_ = listener_.get();
  if (!config_.quiet) {
    say(stderr, fmt::format("troupe: listening at {}: a worker that comes is "
                            "to encode the prompts",
                            listener_->endpoint()));
  }
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
      .method = std::string(request_.plan.method.kind->name),
      .images_total = request_.samples.size(),
      .elapsed_seconds =
          std::chrono::duration<double>(SteadyClock().now() - begun_).count(),
      .seconds_left = -1};
  status.nodes.push_back({.name = process_name(), .status = "here"});
  if (const EncodingListener* const listener = listening_) {
    for (const RemoteProcess& process : listener->processes()) {
      status.nodes.push_back(
          {.name = process.name, .process = process.process, .status = "here"});
    }
    status.waits_for_workers = listener->waits();
  }
  return status;
}

}  // namespace troupe::actors
