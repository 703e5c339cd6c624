#include "tests/actors/company_suite.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/emulation/emulate.h"
#include "actors/remote/link_values.h"
#include "actors/shells.h"
#include "actors/wire/codec.h"
#include "tests/actors/linked_company.h"

namespace troupe::actors {
namespace {

/// There and back.
template <typename News>
News by_wire(News news) {
  const std::string bytes = wire::encode(wire::News(std::move(news)));
  return std::get<News>(wire::decode_news(std::as_bytes(std::span(bytes))));
}

/// Stands for an actor: both end together.
template <typename Base, typename Target>
class Proxy : public Base {
 public:
  Proxy(caf::actor_config& config, Target target)
      : Base(config), target_(std::move(target)) {
    this->monitor(target_);
    this->set_down_handler(
        [this](const caf::down_msg& down) { this->quit(down.reason); });
    this->set_exit_handler([this](const caf::exit_msg& exit) {
      this->send_exit(target_, exit.reason);
      this->quit(exit.reason);
    });
  }
  void on_exit() override { target_ = nullptr; }

 protected:
  template <typename News>
  void carry(News news) {
    guard(this, [&] { this->send(target_, by_wire(std::move(news))); });
  }
  /// What no link carries arrives as it is.
  template <typename OneOf>
  void carry_one_of(OneOf& message) {
    std::visit(
        [this]<typename News>(News& news) {
          if constexpr (AlternativeOf<News, wire::News>) {
            guard(this, [&] {
              this->send(target_, OneOf(by_wire(std::move(news))));
            });
          } else {
            this->send(target_, OneOf(std::move(news)));
          }
        },
        message);
  }

  Target target_;
};

class WorkerProxy final : public Proxy<WorkerActor::base, WorkerActor> {
 public:
  using Proxy::Proxy;

 protected:
  behavior_type make_behavior() override {
    return {
        [this](WorkerMessage& message) { carry_one_of(message); },
        [this](const DropRuns& drop) { carry(drop); },
        [](const WorkerFault&) {},  // the worker tells itself
        [this](halt_atom) { send(target_, halt_atom{}); },
        [this](pulse_atom) { send(target_, pulse_atom{}); },
    };
  }
};

class ProcessProxy final : public Proxy<ProcessActor::base, ProcessActor> {
 public:
  using Proxy::Proxy;

 protected:
  behavior_type make_behavior() override {
    return {
        [this](ProcessMessage& message) { carry_one_of(message); },
    };
  }
};

/// What nodes and workers know as the coordinator. It shows them to the
/// coordinator as proxies, too.
class CoordinatorProxy final
    : public Proxy<CoordinatorActor::base, CoordinatorActor> {
 public:
  using Proxy::Proxy;

 protected:
  behavior_type make_behavior() override {
    return {
        [this](int process, const ProcessActor& actor) {
          send(target_, process,
               ProcessActor(system().spawn<ProcessProxy>(actor)));
        },
        [this](const ProcessJoined& joined, const ProcessActor& actor) {
          send(target_, joined,
               ProcessActor(system().spawn<ProcessProxy>(actor)));
        },
        [this](const WorkerUp& up, const WorkerActor& worker) {
          send(target_, by_wire(up),
               WorkerActor(system().spawn<WorkerProxy>(worker)));
        },
        [this](CoordinatorEvent& event) { carry_one_of(event); },
        [this](const HolderAsked& news) { send(target_, news); },
        [this](halt_atom) { send(target_, halt_atom{}); },
        [](pulse_atom) {},
        [](drain_atom) {},  // there is no inbox
    };
  }
};

class EncodingChannel final : public ValueChannel {
 public:
  explicit EncodingChannel(std::shared_ptr<ValueChannel> inner)
      : inner_(std::move(inner)) {}
  void get(int holder, const ValueName& name, Taker taker) override {
    inner_->get(holder, name,
                [taker = std::move(taker)](std::optional<Parcel> parcel) {
                  if (parcel) {
                    parcel = from_link(to_link(*parcel));
                  }
                  taker(std::move(parcel));
                });
  }

 private:
  std::shared_ptr<ValueChannel> inner_;
};

JobResult run_emulated(const JobSpec& spec) {
  const auto segments =
      static_cast<std::size_t>(samplers::num_segments(spec.parts.method));
  emulation::Machine machine;
  machine.jitter = 0.3;
  machine.segment_shares.assign(segments, 1.0 / static_cast<double>(segments));
  for (std::size_t w = 1; w < spec.workers.size(); ++w) {
    machine.speeds.push_back(1.0 + static_cast<double>(w));
  }
  return emulation::emulate(spec, machine, 1).result;
}

JobResult run_over_sockets(JobSpec spec) {
  LinksOptions options;
  options.folder = std::filesystem::temp_directory_path() / "troupe-XXXXXX";
  require(mkdtemp(options.folder.data()) != nullptr, Errc::io, options.folder,
          "cannot be made");
  JobResult result = run_over_links(std::move(spec), options).job;
  std::filesystem::remove_all(options.folder);
  return result;
}

}  // namespace

Detours wire_detours() {
  return {.coordinator =
              [](caf::actor_system& system, CoordinatorActor coordinator) {
                return CoordinatorActor(
                    system.spawn<CoordinatorProxy>(std::move(coordinator)));
              },
          .channel =
              [](std::shared_ptr<ValueChannel> inner) {
                return std::make_shared<EncodingChannel>(std::move(inner));
              }};
}

namespace {

std::string company_in_force() {
  const char* const named = std::getenv("TROUPE_TEST_COMPANY");
  return named == nullptr ? "shared" : named;
}

}  // namespace

bool is_one_process() { return company_in_force() == "shared"; }

JobResult run_in_suite(JobSpec spec) {
  const std::string company = company_in_force();
  if (company == "shared") {
    return run_job(spec);
  }
  if (company == "links") {
    return run_over_links(std::move(spec)).job;
  }
  if (company == "sockets") {
    return run_over_sockets(std::move(spec));
  }
  if (company == "emulated") {
    return run_emulated(spec);
  }
  require(company == "stores" || company == "wire", Errc::invalid_argument,
          "TROUPE_TEST_COMPANY", "got " + company);
  const bool by_wire = company == "wire";
  for (std::size_t w = 0; w < spec.workers.size(); ++w) {
    spec.workers[w].process = static_cast<int>(w) + (by_wire ? 1 : 0);
  }
  return run_company(spec, by_wire ? wire_detours() : Detours{});
}

}  // namespace troupe::actors
