#include "actors/worker_core.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/copy.h"
#include "samplers/solver.h"

namespace troupe::actors {
namespace {

using samplers::BoundTask;
using samplers::QueuedTasks;

/// Whether one of the tasks makes the value for those after it.
bool is_made_by(const std::vector<BoundTask>& tasks,
                const samplers::SlotTable* slots, samplers::Slot slot) {
  return std::ranges::any_of(tasks, [&](const BoundTask& bound) {
    return bound.slots == slots &&
           std::ranges::find(bound.task.outputs, slot) !=
               bound.task.outputs.end();
  });
}

/// Whether a device still answers. A lost device fails again.
bool is_well(ExecContext& ctx) noexcept {
  try {
    ctx.synchronize();
    return ctx.device().kind != DeviceKind::cpu;
  } catch (...) {
    return false;
  }
}

/// Whether the failure names a device that computes this context's passes.
bool names_device(const ExecContext& ctx, const Failure& failure) {
  std::vector<Device> devices;
  if (ctx.team() != nullptr) {
    devices = ctx.team()->other_devices();
  }
  devices.push_back(ctx.device());
  return std::ranges::any_of(devices, [&](const Device& device) {
    return failure.place == to_string(device);
  });
}

/// Errors of a GPU name it.
void name_device(const ExecContext& ctx, Failure& failure) {
  const bool is_of_device =
      failure.code == Errc::device_lost || failure.code == Errc::device_full;
  if (is_of_device && ctx.device().kind != DeviceKind::cpu &&
      !names_device(ctx, failure)) {
    failure.message = failure.place + ": " + failure.message;
    failure.place = to_string(ctx.device());
  }
}

std::vector<const Tensor*> tensors_of(const samplers::SlotTable::Value& value) {
  std::vector<const Tensor*> tensors;
  if (const auto* state = std::get_if<samplers::SolverState>(&value)) {
    tensors = {&state->latents, &state->anchor, &state->slope};
    for (const Tensor& one : state->history) {
      tensors.push_back(&one);
    }
  } else if (const auto* boundary = std::get_if<Boundary>(&value)) {
    for (const NamedTensor& one : *boundary) {
      tensors.push_back(&one.tensor);
    }
  } else {
    tensors = {&std::get<Tensor>(value)};
  }
  return tensors;
}

/// The memory of a value: the device of its first tensor that is not on the
/// host, or else the host.
Device memory_of(const samplers::SlotTable::Value& value) {
  const std::vector<const Tensor*> tensors = tensors_of(value);
  const auto far = std::ranges::find_if(tensors, [](const Tensor* tensor) {
    return tensor->device().kind != DeviceKind::cpu;
  });
  return far == tensors.end() ? Device{} : (*far)->device();
}

std::uint64_t num_bytes(const samplers::SlotTable::Value& value) {
  std::uint64_t bytes = 0;
  for (const Tensor* const tensor : tensors_of(value)) {
    bytes += tensor->num_bytes();
  }
  return bytes;
}

}  // namespace

std::shared_ptr<ValueStore> make_store(const JobContext& job,
                                       std::shared_ptr<ValueChannel> channel) {
  const JobParts& parts = job.parts;
  return std::make_shared<ValueStore>(*parts.schedule, *parts.noise,
                                      parts.evaluator->latent_shape(),
                                      std::move(channel));
}

// Out of memory while an error is put into words ends the process: noexcept.
Execution::Execution(const Grant& grant, ExecContext& ctx, JobContext& job,
                     ValueStore& store) noexcept
    : ctx_(ctx), job_(job) {
  for (const SampleTask& task : grant.tasks) {
    result_.grants.push_back(task.grant);
  }
  result_.worker = grant.worker;
  result_.epoch = grant.epoch;
  const SampleTask& first = grant.tasks.at(0);
  result_.span = {.worker = grant.worker,
                  .device = ctx.device(),
                  .op = first.task.op,
                  .sample_index = first.sample_index,
                  .rows = static_cast<int>(grant.tasks.size()),
                  .step = first.task.from,
                  .segment = first.task.segment,
                  .start = job.clock->now()};
  for (const RemoteValue& input : grant.sources) {
    result_.held.push_back({input.name, {}});
  }
  try {
    // A stop may have come while the grant waited in the queue.
    require(!ctx.stop_requested(), Errc::interrupted, "worker",
            "stop was requested");
    std::vector<BoundTask> bound;
    std::vector<RemoteValue> gone;
    for (const SampleTask& work : grant.tasks) {
      tables_.push_back(store.open(work.sample_index, work.run));
      runs_.push_back(work.run);
      for (const samplers::Slot slot : work.task.inputs) {
        if (!tables_.back()->has(slot) &&
            !is_made_by(bound, tables_.back().get(), slot)) {
          gone.push_back({{work.sample_index, work.run, slot}, 0});
        }
      }
      if (job.trace) {
        note_reads(grant, work, *tables_.back());
      }
      bound.push_back({work.sample_index, work.task, tables_.back().get()});
    }
    if (!gone.empty()) {
      result_.outcome = InputsGone{std::move(gone)};
      return;  // its process has lost them, or the sample's run is over
    }
    queued_ = queue(bound);
  } catch (...) {
    fail();
  }
  // Before the next grant adds its own.
  result_.ticks = ctx.ticks();
}

Execution::~Execution() = default;

std::unique_ptr<QueuedTasks> Execution::queue(
    const std::vector<BoundTask>& tasks) {
  while (true) {
    try {
      return job_.runner.queue(ctx_, tasks);
    } catch (...) {
      // The slots of the tasks are as they were before.
      if (ctx_.team() == nullptr || !ctx_.team()->can_run_again()) {
        throw;
      }
    }
  }
}

bool Execution::is_done() noexcept {
  if (!queued_) {
    return true;
  }
  try {
    return queued_->end.has_passed();
  } catch (...) {
    return true;  // `finish` meets the same error, and says so
  }
}

GrantResult Execution::finish() noexcept {
  try {
    if (queued_) {
      queued_->end.wait();
      // Before anybody can read what was made: whoever does so begins later.
      note_end();
      std::vector<HeldValue> made = made_values();
      result_.outcome = TasksDone{job_.runner.finish(*queued_)};
      if (job_.trace) {
        std::ranges::transform(made, std::back_inserter(result_.made),
                               &HeldValue::name);
      }
      std::ranges::move(made, std::back_inserter(result_.held));
    } else {
      note_end();
    }
  } catch (...) {
    fail();
    note_end();
  }
  return std::move(result_);
}

void Execution::note_end() noexcept {
  result_.span.duration = job_.clock->now() - result_.span.start;
}

/// Notes the inputs of a task that were fetched from another process, or that
/// another device made.
void Execution::note_reads(const Grant& grant, const SampleTask& work,
                           const samplers::SlotTable& slots) {
  for (const samplers::Slot slot : work.task.inputs) {
    const auto value = slots.find(slot);
    if (!value) {
      continue;  // the pass makes it
    }
    const ValueName name{work.sample_index, work.run, slot};
    const bool is_fetched =
        std::ranges::find(grant.sources, name, &RemoteValue::name) !=
        grant.sources.end();
    const bool is_known =
        std::ranges::find(result_.reads, name, &ReadValue::name) !=
        result_.reads.end();
    if (!is_known && (is_fetched || memory_of(*value) != ctx_.device())) {
      result_.reads.push_back({name, num_bytes(*value)});
    }
  }
}

std::vector<HeldValue> Execution::made_values() const {
  std::vector<HeldValue> made;
  for (const QueuedTasks::Output& output : queued_->outputs) {
    const auto table = std::ranges::find(
        tables_, output.slots, &std::shared_ptr<samplers::SlotTable>::get);
    const auto i = static_cast<std::size_t>(table - tables_.begin());
    const ValueName name{queued_->tasks[i].sample_index, runs_[i], output.slot};
    made.push_back({name, memory_of(output.value)});
  }
  return made;
}

/// Call inside `catch`.
void Execution::fail() noexcept {
  // They show what did not happen.
  result_.made.clear();
  result_.reads.clear();
  auto& [failure, is_elsewhere] =
      result_.outcome.emplace<TasksFailed>(TasksFailed{current_failure()});
  // An error that names a device of this worker counts as its failure, even if
  // the device still answers: its part of the model may be gone.
  is_elsewhere = failure.code == Errc::device_lost &&
                 !names_device(ctx_, failure) && is_well(ctx_);
  if (!is_elsewhere) {
    name_device(ctx_, failure);
  }
}

}  // namespace troupe::actors
