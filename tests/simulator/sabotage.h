#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/simulator/simulate.h"

namespace troupe::actors::simulator {

/// A mistake that a coordinator could make.
struct PlantedBug {
  std::string name;
  Sabotage sabotage;
  std::string law;  ///< that it breaks: part of the error
};

/// Changes every command of one kind.
template <typename Command, typename Change>
Sabotage changing(Change change) {
  Sabotage sabotage;
  sabotage.of_commands = [change](std::vector<CoordinatorCommand>& commands) {
    for (CoordinatorCommand& command : commands) {
      if (auto* one = std::get_if<Command>(&command)) {
        change(*one);
      }
    }
  };
  return sabotage;
}

/// Adds commands behind every command of one kind.
template <typename Command, typename More>
Sabotage adding(More more) {
  Sabotage sabotage;
  sabotage.of_commands = [more](std::vector<CoordinatorCommand>& commands) {
    std::vector<CoordinatorCommand> all;
    for (CoordinatorCommand& command : commands) {
      const auto* one = std::get_if<Command>(&command);
      std::vector<CoordinatorCommand> added;
      if (one != nullptr) {
        added = more(*one);
      }
      all.push_back(std::move(command));
      all.insert(all.end(), added.begin(), added.end());
    }
    commands = std::move(all);
  };
  return sabotage;
}

/// Leaves out every command of one kind.
template <typename Command>
Sabotage dropping() {
  Sabotage sabotage;
  sabotage.of_commands = [](std::vector<CoordinatorCommand>& commands) {
    std::erase_if(commands, [](const CoordinatorCommand& command) {
      return std::holds_alternative<Command>(command);
    });
  };
  return sabotage;
}

inline Sabotage forgetting_to_free() {
  return changing<Grant>([](Grant& grant) { grant.frees.clear(); });
}

inline Sabotage forgetting_to_drop() { return dropping<DropRuns>(); }

/// What a task reads is freed when it is granted.
inline Sabotage freeing_before_the_result() {
  return changing<Grant>([](Grant& grant) {
    const SampleTask& work = grant.tasks.at(0);
    grant.frees.push_back({work.sample_index, work.run, work.task.inputs});
  });
}

/// As if every value were in the worker's process.
inline Sabotage fetching_nothing() {
  return changing<Grant>([](Grant& grant) { grant.sources.clear(); });
}

inline Sabotage fetching_from_somebody_else() {
  return changing<Grant>([](Grant& grant) {
    for (RemoteValue& value : grant.sources) {
      value.process = kHomeProcess;
    }
  });
}

/// Readers go on asking whoever was to make the value before.
inline Sabotage redirecting_nobody() { return dropping<Redirect>(); }

/// Its result is still elsewhere.
inline Sabotage ending_before_the_result_is_home() {
  Sabotage sabotage;
  sabotage.of_commands = [](std::vector<CoordinatorCommand>& commands) {
    for (CoordinatorCommand& command : commands) {
      if (const auto* fetch = std::get_if<FetchValues>(&command)) {
        EndSample end;
        end.report.sample_index = fetch->sample_index;
        end.report.status = SampleStatus::done;
        end.result = fetch->values.front().name.slot;
        end.run = fetch->run;
        command = std::move(end);
      }
    }
  };
  return sabotage;
}

/// The run that the sample is in goes with those before it.
inline Sabotage dropping_one_run_too_many() {
  return changing<DropRuns>([](DropRuns& drop) {
    if (drop.last_run) {
      ++*drop.last_run;
    }
  });
}

/// Before it is in the coordinator's process.
inline Sabotage showing_what_is_elsewhere() {
  return adding<FetchIntermediate>([](const FetchIntermediate& fetch) {
    return std::vector<CoordinatorCommand>{
        ShowIntermediate{fetch.sample_index, fetch.call}};
  });
}

/// Observers miss every second point.
inline Sabotage leaving_out_points() {
  Sabotage sabotage;
  sabotage.of_commands = [](std::vector<CoordinatorCommand>& commands) {
    std::erase_if(commands, [](const CoordinatorCommand& command) {
      const auto* const show = std::get_if<ShowIntermediate>(&command);
      return show != nullptr && show->call % 2 == 1;
    });
  };
  return sabotage;
}

/// A point is freed while it is copied.
inline Sabotage freeing_what_is_shown() {
  return adding<FetchIntermediate>([](const FetchIntermediate& fetch) {
    std::vector<CoordinatorCommand> frees;
    for (const RemoteValue& value : fetch.values) {
      frees.emplace_back(FreeValues{
          value.process, {{fetch.sample_index, fetch.run, {value.name.slot}}}});
    }
    return frees;
  });
}

inline Sabotage ending_a_sample_twice() {
  return adding<EndSample>([](const EndSample& end) {
    return std::vector<CoordinatorCommand>{end};
  });
}

inline Sabotage ending_with_another_slot() {
  return changing<EndSample>(
      [](EndSample& end) { end.result = samplers::kInitialSlot; });
}

/// Before the samples that are left.
inline Sabotage ending_the_job_early() {
  return adding<EndSample>([](const EndSample& /*end*/) {
    return std::vector<CoordinatorCommand>{EndJob{}};
  });
}

inline Sabotage never_ending_the_job() { return dropping<EndJob>(); }

/// With every event that it still hears of.
inline Sabotage ending_the_job_again() {
  Sabotage sabotage;
  sabotage.of_commands =
      [has_ended = false](std::vector<CoordinatorCommand>& commands) mutable {
        if (has_ended) {
          commands.push_back(EndJob{});
        }
        has_ended =
            has_ended || std::ranges::any_of(commands, [](const auto& one) {
              return std::holds_alternative<EndJob>(one);
            });
      };
  return sabotage;
}

inline Sabotage naming_another_class() {
  return changing<EndSample>(
      [](EndSample& end) { end.report.execution_class ^= 1; });
}

inline Sabotage fencing_whoever_gets_a_grant() {
  return adding<Grant>([](const Grant& grant) {
    return std::vector<CoordinatorCommand>{FenceWorker{grant.worker}};
  });
}

inline Sabotage never_fencing() { return dropping<FenceWorker>(); }

inline Sabotage granting_twice() {
  return adding<Grant>([](const Grant& grant) {
    Grant again = grant;
    for (SampleTask& work : again.tasks) {
      work.grant += std::uint64_t{1} << 32U;
    }
    return std::vector<CoordinatorCommand>{again};
  });
}

inline Sabotage granting_to_the_first_incarnation() {
  return changing<Grant>([](Grant& grant) { grant.epoch = 1; });
}

inline Sabotage not_counting_runs() {
  return changing<Grant>([](Grant& grant) {
    for (SampleTask& work : grant.tasks) {
      work.run = 0;
    }
  });
}

inline Sabotage mixing_up_inputs() {
  return changing<Grant>([](Grant& grant) {
    for (SampleTask& work : grant.tasks) {
      if (work.task.inputs.size() == 2) {
        std::swap(work.task.inputs[0], work.task.inputs[1]);
      }
    }
  });
}

inline Sabotage telling_another_timestep() {
  return changing<Grant>([](Grant& grant) {
    for (SampleTask& work : grant.tasks) {
      work.task.timestep_call = 0;
    }
  });
}

/// While the cut is under way.
inline Sabotage freeing_what_is_cut() {
  return adding<TakeCut>([](const TakeCut& take) {
    std::vector<CoordinatorCommand> frees;
    for (const RemoteValue& value : take.values) {
      frees.emplace_back(FreeValues{
          value.process, {{take.sample_index, take.run, {value.name.slot}}}});
    }
    return frees;
  });
}

inline Sabotage going_back_to_the_cut_before() {
  return changing<RestoreCut>([](RestoreCut& restore) { --restore.number; });
}

inline Sabotage restoring_in_the_run_before() {
  return changing<RestoreCut>([](RestoreCut& restore) { --restore.run; });
}

/// Those of a process that joins.
inline Sabotage numbering_workers_twice() {
  return changing<AdmitProcess>(
      [](AdmitProcess& admit) { admit.first_worker = 0; });
}

inline Sabotage letting_nobody_in() { return dropping<AdmitProcess>(); }

inline bool is_cancel(const CoordinatorCommand& command) {
  const auto* end = std::get_if<EndSample>(&command);
  return end != nullptr && end->report.status == SampleStatus::cancelled;
}

inline Sabotage ignoring_a_cancel() {
  Sabotage sabotage;
  sabotage.of_commands = [](std::vector<CoordinatorCommand>& commands) {
    std::erase_if(commands, is_cancel);
  };
  return sabotage;
}

inline Sabotage cancelling_the_sample_beside() {
  return changing<EndSample>([](EndSample& end) {
    end.report.sample_index ^=
        end.report.status == SampleStatus::cancelled ? 1U : 0U;
  });
}

/// Its values stay where they are.
inline Sabotage keeping_what_is_cancelled() {
  Sabotage sabotage;
  sabotage.of_commands = [](std::vector<CoordinatorCommand>& commands) {
    if (std::ranges::any_of(commands, is_cancel)) {
      std::erase_if(commands, [](const CoordinatorCommand& command) {
        return std::holds_alternative<DropRuns>(command);
      });
    }
  };
  return sabotage;
}

inline Sabotage showing_what_is_cancelled() {
  return adding<EndSample>([](const EndSample& end) {
    return is_cancel(end) ? std::vector<CoordinatorCommand>{ShowIntermediate{
                                end.report.sample_index}}
                          : std::vector<CoordinatorCommand>{};
  });
}

/// Samples begin whether there is room or not.
inline Sabotage knowing_no_budget() {
  Sabotage sabotage;
  sabotage.of_options = [](CoordinatorOptions& options) {
    options.value_budgets.clear();
  };
  return sabotage;
}

/// As if a sample held less than it does.
inline Sabotage counting_a_third_of_a_value() {
  Sabotage sabotage;
  sabotage.of_options = [](CoordinatorOptions& options) {
    ValueSizes& sizes = options.value_sizes;
    for (std::uint64_t* const size :
         {&sizes.state, &sizes.output, &sizes.boundary, &sizes.pixels,
          &sizes.cache}) {
      *size = (*size + 2) / 3;
    }
  };
  return sabotage;
}

inline Sabotage parking_after_one_loss() {
  Sabotage sabotage;
  sabotage.of_options = [](CoordinatorOptions& options) {
    options.max_losses = 1;
  };
  return sabotage;
}

inline Sabotage letting_go_before_the_work_is_back() {
  return adding<Recall>([](const Recall& recall) {
    return std::vector<CoordinatorCommand>{ReleaseProcess{recall.worker + 1},
                                           ReleaseProcess{recall.worker}};
  });
}

}  // namespace troupe::actors::simulator
