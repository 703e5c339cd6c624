#include "actors/firing.h"

#include <optional>
#include <utility>

namespace troupe::actors {
namespace {

/// On a GPU a pass is queued behind the one that runs: the device goes from one
/// to the other while the host reads what the first has said.
int most_passes(const ExecContext& ctx) {
  return ctx.device().kind == DeviceKind::cpu ? 1 : 2;
}

}  // namespace

Firing::Firing(FiringSpec spec)
    : spec_(std::move(spec)),
      policy_(spec_.worker, spec_.epoch, spec_.process,
              most_passes(*spec_.ctx)) {}

void Firing::on(WorkerEvent event) noexcept {
  try {
    std::vector<WorkerCommand> commands;
    {
      const std::lock_guard lock(mutex_);
      commands = policy_.on(std::move(event));
    }
    // Without the lock: what the store does may lead here again.
    for (WorkerCommand& command : commands) {
      std::visit([this](auto& c) { perform(c); }, command);
    }
    post_next();
  } catch (...) {
    spec_.fail(current_failure());
  }
}

void Firing::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
}

void Firing::post_next() {
  const std::lock_guard lock(mutex_);
  if (!is_closed_ && !is_posted_ && policy_.has_next()) {
    is_posted_ = true;
    spec_.executor->post([self = shared_from_this()] { self->run_next(); });
  }
}

void Firing::run_next() noexcept {
  try {
    std::optional<Grant> pass;
    {
      const std::lock_guard lock(mutex_);
      is_posted_ = false;
      pass = policy_.next();
    }
    if (!pass) {
      return;  // what was ready has been dropped
    }
    const auto work = std::make_shared<Execution>(*pass, *spec_.ctx, *spec_.job,
                                                  *spec_.store);
    const auto finish = [self = shared_from_this(), work] {
      GrantResult result = work->finish();
      result.span.process = self->spec_.process;
      if (auto* const gone = std::get_if<InputsGone>(&result.outcome)) {
        for (RemoteValue& value : gone->values) {
          value.process = self->spec_.process;
        }
      }
      self->on(WorkDone{std::move(result)});
    };
    if (work->is_done()) {
      finish();
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!is_closed_) {
        spec_.executor->post_when([work] { return work->is_done(); }, finish);
      }
    }
    post_next();
  } catch (...) {
    spec_.fail(current_failure());
  }
}

void Firing::perform(FreeOwn& free) {
  for (const FreedSlots& freed : free.frees) {
    spec_.store->free(freed);
  }
}

void Firing::perform(FetchInputs& fetch) {
  for (const RemoteValue& value : fetch.values) {
    const auto then = [self = shared_from_this(), value](bool is_here) {
      if (is_here) {
        self->on(InputHere{value.name});
      } else {
        self->on(InputGone{value});
      }
    };
    if (value.process == spec_.process) {
      spec_.store->await(value.name, then);
    } else {
      spec_.store->fetch(value, then);
    }
  }
}

void Firing::perform(GrantResult& result) {
  const auto* const failed = std::get_if<TasksFailed>(&result.outcome);
  if (failed != nullptr && failed->failure.code == Errc::interrupted) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) {
      return;  // the end of its worker is news of its own
    }
  }
  spec_.answer(std::move(result));
}

void Firing::perform(WorkerBeat& beat) { spec_.beat(beat); }

void Firing::perform(InterruptWork& /*interrupt*/) {
  spec_.ctx->request_stop();
}

}  // namespace troupe::actors
