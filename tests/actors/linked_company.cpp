#include "tests/actors/linked_company.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "actors/remote/outbox.h"
#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::actors {
namespace {

/// However slow the machine is.
constexpr auto kPatience = std::chrono::minutes(1);

std::string class_name(int number) {
  return to_hex(static_cast<std::uint64_t>(number));
}

/// Hears what the coordinator's process hears, after it.
class Listener final : public net::LinkHandler {
 public:
  Listener(net::LinkHandler& handler, std::function<void()> on_worker_up)
      : handler_(handler), on_worker_up_(std::move(on_worker_up)) {}

  void on_greeting(net::PeerId peer, const net::Greeting& greeting) override {
    handler_.on_greeting(peer, greeting);
  }
  void on_up(net::PeerId peer, const net::Greeting& greeting) override {
    handler_.on_up(peer, greeting);
  }
  void on_record(net::PeerId peer, std::span<const std::byte> record) override {
    handler_.on_record(peer, record);
    const auto message = messages_[peer].add(record, wire::kMostNewsBytes);
    if (message && std::holds_alternative<WorkerUp>(
                       wire::decode_news(net::bytes_of(*message)))) {
      on_worker_up_();
    }
  }
  void on_room(net::PeerId peer) override { handler_.on_room(peer); }
  void on_beat(net::PeerId peer,
               const std::optional<net::RoundTrip>& round_trip) override {
    handler_.on_beat(peer, round_trip);
  }
  void on_wanted(net::PeerId peer, net::WantId want,
                 std::string_view key) override {
    handler_.on_wanted(peer, want, key);
  }
  void on_lost(net::PeerId peer, const net::Loss& loss) override {
    handler_.on_lost(peer, loss);
  }

 private:
  net::LinkHandler& handler_;
  std::function<void()> on_worker_up_;
  std::map<net::PeerId, Assembler> messages_;
};

/// The processes of one job, within this one.
class LinkedCompany {
 public:
  LinkedCompany(const JobSpec& spec, const LinksOptions& options)
      : spec_(spec), options_(options), board_(net::make_switchboard()) {}

  auto hub_maker(const LinksOptions::Wrap& wrap) {
    return [this, wrap](net::HubOptions options, net::LinkHandler& handler) {
      auto hub = options_.folder.empty()
                     ? board_->make_hub(std::move(options), handler)
                     : net::make_hub(std::move(options), handler);
      return wrap ? wrap(std::move(hub)) : std::move(hub);
    };
  }

  [[nodiscard]] std::string endpoint(const std::string& name) const {
    return options_.folder.empty() ? "inproc://" + name
                                   : "ipc://" + options_.folder + "/" + name;
  }

  /// That of the coordinator's process.
  std::unique_ptr<net::Hub> listening_hub(net::HubOptions options,
                                          net::LinkHandler& handler) {
    listener_.emplace(handler, options_.on_worker_up);
    return hub_maker(options_.wrap_coordinator)(std::move(options), *listener_);
  }

  /// A process with this worker.
  void compute(std::size_t worker, const WorkerTraits& place) {
    CompanyMember member({.version = "test",
                          .name = "test",
                          .hub = {.role = "worker"},
                          .endpoint = endpoint("company"),
                          .peers = peers(worker),
                          .patience = kPatience,
                          .silence = options_.silence,
                          .make_hub = hub_maker(options_.wrap_worker)});
    try {
      if (!member.wait_for_offer({})) {
        return;
      }
    } catch (const Error&) {
      return;  // the job could not begin
    }
    MemberJob job{.parts = spec_.parts,
                  .workers = {place},
                  .classes = {{.name = class_name(place.execution_class)}},
                  .restart = spec_.restart,
                  .make_executor = spec_.make_executor};
    job.workers[0].execution_class = 0;
    job.workers[0].process = member.process();
    (void)member.serve(std::move(job), {}, {});
  }

 private:
  [[nodiscard]] std::optional<PeerSpec> peers(std::size_t worker) const {
    const LinksOptions::Peers how = options_.peers(worker);
    if (how == LinksOptions::Peers::neither) {
      return std::nullopt;
    }
    PeerSpec spec;
    spec.deadline = kPatience;
    if (how == LinksOptions::Peers::both) {
      spec.bind = endpoint("worker-" + std::to_string(worker));
    }
    return spec;
  }

  const JobSpec& spec_;
  const LinksOptions& options_;
  std::optional<Listener> listener_;
  std::unique_ptr<net::Switchboard> board_;
};

}  // namespace

Offer offer_of(const JobSpec& spec) {
  Offer offer;
  offer.trace = spec.trace;
  const samplers::Evaluator& evaluator = *spec.parts.evaluator;
  const Shape shape = evaluator.latent_shape();
  offer.job.begin = spec.begin;
  offer.job.end = spec.end;
  offer.job.latent_shape = {shape.extents().begin(), shape.extents().end()};
  offer.job.schedule = spec.parts.schedule->table();
  for (int cut = 0; cut <= evaluator.num_segments(); ++cut) {
    offer.job.cuts.push_back(cut);
  }
  return offer;
}

LinksResult run_over_links(JobSpec spec, const LinksOptions& options) {
  Offer offer = offer_of(spec);
  for (const WorkerTraits& place : spec.workers) {
    spec.num_classes = std::max(spec.num_classes, place.execution_class + 1);
  }
  for (int number = 0; number < spec.num_classes; ++number) {
    offer.job.execution_classes.push_back({.name = class_name(number)});
  }
  JobClasses classes(offer.job.execution_classes);
  const std::vector<WorkerTraits> places = std::exchange(spec.workers, {});
  spec.waits_for_processes = !places.empty();
  LinkedCompany company(spec, options);
  std::vector<std::jthread> processes;
  CompanyListener listener(
      {.version = "test",
       .hub = {.role = "coordinator"},
       .endpoints = {company.endpoint("company")},
       .offer = std::move(offer),
       .classes = &classes,
       .silence = options.silence,
       .make_hub = [&company](net::HubOptions hub, net::LinkHandler& handler) {
         return company.listening_hub(std::move(hub), handler);
       }});
  for (std::size_t w = 0; w < places.size(); ++w) {
    processes.emplace_back([&, w] { company.compute(w, places[w]); });
  }
  try {
    LinksResult result{run_company(spec, listener.detours()), 0, {}};
    listener.end(result.job.failure);
    result.bytes_relayed = listener.bytes_relayed();
    result.processes = listener.processes();
    return result;
  } catch (...) {
    listener.end(current_failure());
    throw;
  }
}

}  // namespace troupe::actors
