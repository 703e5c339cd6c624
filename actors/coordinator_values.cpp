// The part of CoordinatorPolicy for values: which process holds a value, from
// which process it is fetched, and when it is freed; and for intermediates, the
// values that observers get.

#include <algorithm>
#include <string>
#include <utility>

#include "actors/coordinator_policy.h"

namespace troupe::actors {

using samplers::Slot;
using samplers::Task;

/// Whether the result has all outputs of its task. Other processes are not
/// trusted.
bool CoordinatorPolicy::is_whole(const GrantResult& event,
                                 const SampleTask& work,
                                 const samplers::TaskResult& result) {
  if (at(event.worker).traits.process == kHomeProcess ||
      sample_of(work) == nullptr) {
    return true;
  }
  const auto is_held = [&](Slot slot) {
    const ValueName name{work.sample_index, work.run, slot};
    return std::ranges::find(event.held, name, &HeldValue::name) !=
           event.held.end();
  };
  return result.scalars.size() == samplers::num_scalars(work.task) &&
         std::ranges::all_of(work.task.outputs, is_held);
}

/// Also for a result that came too late: the process holds its values all the
/// same.
void CoordinatorPolicy::note_values(const GrantResult& event) {
  const int process = at(event.worker).traits.process;
  const std::uint64_t when = next_grant_++;
  const auto run_of = [this](const ValueName& name) -> Sample* {
    const auto found = samples_.find(name.sample_index);
    const bool is_current =
        found != samples_.end() && found->second.run == name.run;
    return is_current ? &found->second : nullptr;
  };
  for (const HeldValue& value : event.held) {
    Sample* sample = run_of(value.name);
    const bool is_lost =
        lost_processes_.contains(process) ||
        std::ranges::find(lost_memories_, std::pair(process, value.memory)) !=
            lost_memories_.end();
    if (sample != nullptr && !is_lost) {
      sample->values.add(value.name.slot, process, value.memory, when);
    }
  }
}

/// Says in the grant where the task's inputs lie, or will. Every process can
/// make an initial state.
void CoordinatorPolicy::find_values(Sample& sample, const Task& task,
                                    Grant& grant) {
  const int process = at(grant.worker).traits.process;
  for (const Slot slot : task.inputs) {
    find_value(sample, slot, process, grant.sources);
    sample.values.expect(slot, process);
  }
  for (const Slot slot : task.outputs) {
    sample.values.expect_made(slot, process);
  }
}

void CoordinatorPolicy::find_value(const Sample& sample, Slot slot, int process,
                                   std::vector<RemoteValue>& sources) {
  if (slot == samplers::kInitialSlot) {
    return;
  }
  const ValueName name{sample.index, sample.run, slot};
  const std::optional<int> holder = sample.values.holder(slot, process);
  const std::optional<int> source = holder ? holder : sample.values.maker(slot);
  require(source.has_value(), Errc::internal, "coordinator",
          "a task was granted whose inputs nobody holds or makes");
  if (*source == process && holder) {
    return;  // it is there
  }
  // An earlier entry may say something else: this is newer.
  const auto said = std::ranges::find(sources, name, &RemoteValue::name);
  if (said == sources.end()) {
    sources.push_back({name, *source});
  } else {
    said->process = *source;
  }
}

/// The task goes to another worker: informs the workers whose tasks read its
/// outputs.
void CoordinatorPolicy::redirect_readers(const Sample& sample,
                                         const Task& made) {
  for (const auto& [number, index] : sample.grants) {
    const Worker& worker = at(index);
    const samplers::Slots& inputs = worker.held.at(number).work.task.inputs;
    Redirect redirect{index, worker.epoch, number, {}};
    for (const Slot slot : made.outputs) {
      if (std::ranges::find(inputs, slot) != inputs.end()) {
        find_value(sample, slot, worker.traits.process, redirect.sources);
      }
    }
    if (!redirect.sources.empty()) {
      redirects_.push_back(std::move(redirect));
    }
  }
}

/// Whether the cut under way or an intermediate needs the value.
bool CoordinatorPolicy::is_withheld(const Sample& sample, Slot slot) {
  return (sample.next_cut &&
          std::ranges::find(sample.next_cut->cut.slots, slot) !=
              sample.next_cut->cut.slots.end()) ||
         std::ranges::any_of(
             sample.intermediates, [slot](const Sample::Intermediate& one) {
               return one.state == slot || one.model_output == slot;
             });
}

void CoordinatorPolicy::free_slots(Sample& sample, std::span<const Slot> dead) {
  for (const Slot slot : dead) {
    if (is_withheld(sample, slot)) {
      sample.withheld.push_back(slot);
      continue;
    }
    for (const int process : sample.values.free(slot)) {
      std::vector<FreedSlots>& frees = frees_[process];
      const bool goes_on = !frees.empty() &&
                           frees.back().sample_index == sample.index &&
                           frees.back().run == sample.run;
      if (!goes_on) {
        frees.push_back({sample.index, sample.run, {}});
      }
      frees.back().slots.push_back(slot);
    }
  }
}

/// Takes back all grants of the sample. Every process that may hold values of
/// it drops its runs up to `last_run`, or all of them without a number.
void CoordinatorPolicy::drop_runs(Sample& sample,
                                  std::optional<std::uint32_t> last_run) {
  const bool all_answered = sample.grants.empty();
  for (const auto& [number, worker] : std::exchange(sample.grants, {})) {
    (void)take_grant(worker, number, false);
  }
  for (const int process : sample.values.processes()) {
    commands_.push_back(
        DropRuns{process, sample.index, last_run, all_answered});
  }
  const auto forget = [&](int process) {
    if (std::vector<FreedSlots>* const frees = frees_.find(process)) {
      std::erase_if(*frees, [&sample](const FreedSlots& freed) {
        return freed.sample_index == sample.index;
      });
    }
  };
  std::ranges::for_each(sample.values.processes(), forget);
  std::ranges::for_each(lost_processes_, forget);
}

/// Pixels that are still to be made come as soon as they are: that saves the
/// time of a message and its answer.
void CoordinatorPolicy::ask_for_result(Sample& sample) {
  std::vector<Slot> results{sample.method->result_slot()};
  if (options_.decode) {
    results.push_back(kPixelsSlot);
  }
  FetchValues fetch{sample.index, sample.run, ++sample.result_fetch, {}};
  for (const Slot slot : results) {
    find_value(sample, slot, kHomeProcess, fetch.values);
    sample.values.expect(slot, kHomeProcess);
  }
  std::erase_if(fetch.values, [](const RemoteValue& value) {
    return value.process == kHomeProcess;
  });
  sample.result =
      fetch.values.empty() ? Sample::Result::here : Sample::Result::asked_for;
  if (!fetch.values.empty()) {
    commands_.push_back(std::move(fetch));
  }
}

/// The sample is computed, and ends when its result and the points of its
/// trajectory are in the coordinator's process.
void CoordinatorPolicy::bring_home(Sample& sample) {
  if (sample.result == Sample::Result::elsewhere) {
    ask_for_result(sample);
  }
  if (sample.result == Sample::Result::here && has_shown_all(sample)) {
    end_sample(sample.index, SampleStatus::done, {});
  }
}

void CoordinatorPolicy::handle(const ValuesFetched& event) {
  const auto found = samples_.find(event.sample_index);
  if (found == samples_.end() || found->second.run != event.run) {
    return;  // it has restarted meanwhile
  }
  Sample& sample = found->second;
  if (event.is_rescue) {
    values_rescued(sample, event);
    return;
  }
  for (const RemoteValue& value : event.gone) {
    sample.values.remove(value.name.slot, value.process);
  }
  if (event.number != sample.result_fetch) {
    return;  // another worker decodes now, and its pixels were asked for
  }
  sample.result =
      event.gone.empty() ? Sample::Result::here : Sample::Result::elsewhere;
  if (!event.gone.empty() && lacks_values(sample)) {
    ++recoveries_;
    restart_in_class(sample);
  } else if (is_coming_home(sample)) {
    bring_home(sample);
  }
}

/// Asks for what observers get of a task: the point of the trajectory that it
/// makes, with the first step also the point that the step comes from, and of a
/// step to such a point a preview if one is due; or an early result, in the
/// place of previews that come from other processes.
void CoordinatorPolicy::show_step(Sample& sample, const Task& task) {
  if (!options_.trajectory && options_.preview_every == 0) {
    return;
  }
  const auto step = samplers::step_of(task);
  if (options_.trajectory) {
    if (step && task.from == 0) {
      fetch_intermediate(sample, {.call = 0, .state = step->state});
    }
    if (const auto point = samplers::point_of(task)) {
      fetch_intermediate(sample, {.call = task.to, .state = *point});
    }
  }
  // A plan numbers its tasks round by round.
  if (options_.preview_every > 0 && task.is_early_result &&
      task.id > sample.newest_early_result) {
    sample.newest_early_result = task.id;
    // The result's own steps show less until it is there.
    sample.next_preview = calls_per_sample_;
    std::erase_if(sample.intermediates, &Sample::Intermediate::may_be_late);
    fetch_intermediate(sample, {.call = task.to,
                                .state = samplers::state_of(task).value(),
                                .is_preview = true});
    return;
  }
  if (!step || !task.is_on_chain) {
    return;
  }
  if (options_.preview_every > 0 && step->is_final &&
      task.from >= sample.next_preview &&
      std::ranges::none_of(sample.intermediates,
                           &Sample::Intermediate::may_be_late)) {
    sample.next_preview =
        (task.from / options_.preview_every + 1) * options_.preview_every;
    fetch_intermediate(sample, {.call = task.from,
                                .state = step->state,
                                .is_preview = true,
                                .model_output = step->model_output});
  }
}

/// Picard sweeps a point anew when the sweep before has been applied. The point
/// of the last sweep is final, and replaces earlier points of the same call
/// that are being fetched.
void CoordinatorPolicy::fetch_intermediate(Sample& sample,
                                           Sample::Intermediate wanted) {
  wanted.number = next_intermediate_++;
  FetchIntermediate fetch{
      sample.index, sample.run, wanted.number, wanted.call, {}};
  const auto add = [&](Slot slot) {
    // The process itself makes an initial state. It is also asked for a value
    // that is lost: its answer is that the value is gone.
    fetch.values.push_back(
        {{sample.index, sample.run, slot},
         sample.values.holder(slot, kHomeProcess).value_or(kHomeProcess)});
    sample.values.expect(slot, kHomeProcess);
  };
  add(wanted.state);
  if (wanted.model_output) {
    add(*wanted.model_output);
  }
  wanted.may_be_late =
      wanted.is_preview && fetch.values.back().process != kHomeProcess;
  if (!wanted.is_preview) {
    std::erase_if(sample.intermediates, [&](const Sample::Intermediate& one) {
      return one.call == wanted.call && !one.is_preview;
    });
    sample.points.insert(wanted.call);
  }
  sample.intermediates.push_back(wanted);
  commands_.emplace_back(std::move(fetch));
}

void CoordinatorPolicy::handle(const IntermediateFetched& event) {
  const auto found = samples_.find(event.sample_index);
  if (found == samples_.end() || found->second.run != event.run) {
    return;  // it has restarted meanwhile
  }
  Sample& sample = found->second;
  const auto shown = std::ranges::find(sample.intermediates, event.number,
                                       &Sample::Intermediate::number);
  if (shown == sample.intermediates.end()) {
    return;  // a newer one has taken its place
  }
  const Sample::Intermediate one = *shown;
  const bool is_preview = one.is_preview;
  for (const RemoteValue& value : event.gone) {
    sample.values.remove(value.name.slot, value.process);
  }
  const bool is_lost = !event.gone.empty();
  // No process holds an initial state: only this one makes it for observers.
  const bool has_no_holder =
      !is_preview && !sample.values.holder(one.state, kHomeProcess);
  if (is_lost && (has_no_holder || lacks_values(sample))) {
    ++recoveries_;
    restart_in_class(sample);
    return;
  }
  sample.intermediates.erase(shown);
  if (!is_lost) {
    commands_.emplace_back(
        ShowIntermediate{sample.index, one.call, is_preview});
  } else if (!is_preview) {
    fetch_intermediate(sample, one);  // from another holder
  }
  free_slots(sample, std::exchange(sample.withheld, {}));
  if (is_coming_home(sample)) {
    bring_home(sample);
  }
}

/// Whether observers have all points of the trajectory up to this call.
bool CoordinatorPolicy::has_shown(const Sample& sample, int call) {
  return std::ranges::none_of(sample.intermediates,
                              [call](const Sample::Intermediate& one) {
                                return !one.is_preview && one.call <= call;
                              });
}

/// Whether observers have all that they must get of the sample.
bool CoordinatorPolicy::has_shown_all(const Sample& sample) const {
  const auto num_points = static_cast<std::size_t>(sample.method->num_points());
  return (!options_.trajectory || sample.points.size() == num_points) &&
         std::ranges::all_of(sample.intermediates,
                             &Sample::Intermediate::may_be_late);
}

std::optional<int> CoordinatorPolicy::holder_of(const ValueName& name,
                                                int besides) const {
  const auto run = run_of(name.sample_index);
  return run && run->run == name.run
             ? run->values->other_holder(name.slot, besides)
             : std::nullopt;
}

std::optional<CoordinatorPolicy::RunView> CoordinatorPolicy::run_of(
    std::uint64_t sample_index) const {
  const auto found = samples_.find(sample_index);
  return found == samples_.end()
             ? std::nullopt
             : std::optional(RunView{found->second.run, &found->second.values});
}

bool CoordinatorPolicy::will_free(const ValueName& name, int process) const {
  const auto names_it = [&name](const FreedSlots& freed) {
    return freed.sample_index == name.sample_index && freed.run == name.run &&
           std::ranges::find(freed.slots, name.slot) != freed.slots.end();
  };
  const std::vector<FreedSlots>* const waiting = frees_.find(process);
  if (waiting != nullptr && std::ranges::any_of(*waiting, names_it)) {
    return true;
  }
  for (const Worker& worker : workers_) {
    for (const auto& [number, granted] : worker.held) {
      if (worker.traits.process == process &&
          std::ranges::any_of(granted.frees, names_it)) {
        return true;
      }
    }
  }
  return false;
}

std::vector<Slot> CoordinatorPolicy::needed_slots(const Sample& sample) {
  std::vector<Slot> needed = sample.method->live_slots();
  for (const Sample::Intermediate& one : sample.intermediates) {
    if (!one.is_preview) {
      needed.push_back(one.state);
    }
  }
  std::erase(needed, samplers::kInitialSlot);
  if (sample.is_decoded) {
    needed.push_back(kPixelsSlot);
  }
  return needed;
}

bool CoordinatorPolicy::lacks_values(const Sample& sample) const {
  return std::ranges::any_of(needed_slots(sample), [&sample](Slot slot) {
    return !sample.values.holder(slot, kHomeProcess);
  });
}

}  // namespace troupe::actors
