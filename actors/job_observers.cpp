#include <optional>
#include <utility>

#include "actors/shells.h"

namespace troupe::actors {
namespace {

class ObserversShell final : public ObserverActor::base {
 public:
  ObserversShell(caf::actor_config& config, ObserversSpec spec)
      : ObserverActor::base(config), spec_(std::move(spec)) {}

 protected:
  behavior_type make_behavior() override {
    return {
        [this](const ObserverEvent& event) {
          std::visit([this](const auto& one) { handle(one); }, event);
        },
    };
  }

 private:
  /// Whatever throws ends the job. This actor stays: it is to hear the end.
  template <std::invocable Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (...) {
      fault(current_failure());
    }
  }

  void handle(const JobProgress& progress) {
    tell(&Observer::on_progress, progress);
  }
  void handle(const SampleOutcome& outcome) {
    guarded([&] { record_.ended.push_back(outcome.report); });
    tell(&Observer::on_sample, outcome);
  }
  void handle(const Preview& preview) { tell(&Observer::on_preview, preview); }
  void handle(const TrajectoryPoint& point) {
    tell(&Observer::on_point, point);
  }
  void handle(const TracePass& pass) { tell(&Observer::on_pass, pass); }
  void handle(const EndJob& end) {
    if (std::exchange(is_over_, true)) {
      return;
    }
    tell(&Observer::on_progress, end.progress);
    guarded([&] { record_.end = end; });
    if (fault_ && !record_.end.failure) {
      record_.end.failure = fault_;
    }
    spec_.on_end(std::move(record_));
  }

  template <typename News>
  void tell(void (Observer::*hear)(const News&), const News& news) {
    guarded([&] {
      for (Observer* observer : spec_.observers) {
        (observer->*hear)(news);
      }
    });
  }

  void fault(Failure cause) {
    if (fault_) {
      return;
    }
    fault_ = cause;
    if (auto coordinator =
            caf::actor_cast<CoordinatorActor>(current_sender())) {
      send(coordinator, CoordinatorEvent(JobFault{std::move(cause)}));
    }
  }

  ObserversSpec spec_;
  JobHistory record_;
  std::optional<Failure> fault_;
  bool is_over_ = false;
};

}  // namespace

ObserverActor spawn_observers(caf::actor_system& system, ObserversSpec spec) {
  return system.spawn<ObserversShell>(std::move(spec));
}

}  // namespace troupe::actors
