// The part of World that is the processes and their values.

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/simulator/world.h"

namespace troupe::actors::simulator {

// ---- what the policies ask for

void World::perform(FetchValues& fetch) {
  ledger_.asked(fetch);
  const std::uint64_t index = fetch.sample_index;
  const std::uint32_t run = fetch.run;
  const std::uint64_t number = fetch.number;
  const bool is_rescue = fetch.is_rescue;
  begin_fetch({.process = kHomeProcess,
               .then =
                   [this, index, run, number,
                    is_rescue](std::vector<RemoteValue> gone) {
                     queue_.add(now(), ToCoordinator{ValuesFetched{
                                           index, run, number, std::move(gone),
                                           is_rescue}});
                   },
               .is_awaited =
                   [this, is_rescue](const ValueName& name) {
                     // A process may have taken the value meanwhile and freed
                     // it.
                     return is_current(name) && (!is_rescue || is_listed(name));
                   }},
              fetch.values);
}

/// As CutKeeper::copy.
void World::perform(FetchIntermediate& fetch) {
  std::vector<RemoteValue> remote;
  std::ranges::copy_if(
      fetch.values, std::back_inserter(remote),
      [](const RemoteValue& value) { return value.process != kHomeProcess; });
  begin_fetch({.process = kHomeProcess,
               .then =
                   [this, fetch](std::vector<RemoteValue> gone) {
                     copy_intermediate(fetch, std::move(gone));
                   },
               .is_awaited =
                   [this](const ValueName& name) {
                     // Another may have taken its place.
                     return is_current(name) && is_listed(name);
                   }},
              remote);
}

void World::copy_intermediate(const FetchIntermediate& fetch,
                              std::vector<RemoteValue> gone) {
  const ValueName& state = fetch.values.front().name;
  const auto table = store(kHomeProcess).open(state.sample_index, state.run);
  const bool is_here =
      std::ranges::all_of(fetch.values, [&table](const RemoteValue& value) {
        return table->find(value.name.slot).has_value();
      });
  if (gone.empty() && !is_here) {
    gone = fetch.values;
  }
  if (gone.empty()) {
    copied_[fetch.number] = table->find(state.slot).value();
  }
  queue_.add(now(),
             ToCoordinator{IntermediateFetched{fetch.sample_index, fetch.run,
                                               fetch.number, std::move(gone)}});
}

void World::perform(TakeCut& take) {
  ++outcome_.cuts;
  std::erase_if(cuts_[take.sample_index], [&take](const auto& entry) {
    return entry.first != take.last;
  });
  std::vector<RemoteValue> remote;
  std::ranges::copy_if(
      take.values, std::back_inserter(remote),
      [](const RemoteValue& value) { return value.process != kHomeProcess; });
  end_in_cut(remote);
  begin_fetch({.process = kHomeProcess,
               .then =
                   [this, take](std::vector<RemoteValue> gone) {
                     keep_cut(take, std::move(gone));
                   },
               .is_awaited =
                   [this](const ValueName& name) { return is_current(name); }},
              remote);
}

/// As CutKeeper: all of its values, or none.
void World::keep_cut(const TakeCut& take, std::vector<RemoteValue> gone) {
  std::map<samplers::Slot, Symbol> values;
  for (const RemoteValue& value : take.values) {
    if (const auto symbol = store(kHomeProcess).find(value.name)) {
      values.emplace(value.name.slot, *symbol);
    }
  }
  const bool is_whole = gone.empty() && values.size() == take.values.size();
  ledger_.expect(is_whole || !gone.empty() ||
                     !is_current({take.sample_index, take.run, 0}),
                 "a value is freed before it is cut");
  if (is_whole) {
    cuts_[take.sample_index][take.number] = {take.cut, take.run,
                                             std::move(values)};
    check_room_with_cuts();
  } else {
    outcome_.lost_cuts +=
        std::ranges::any_of(gone,
                            [this](const RemoteValue& value) {
                              return has_ended(value.process) ||
                                     is_out(value.process);
                            })
            ? 1
            : 0;
    gone = take.values;
  }
  queue_.add(now(), ToCoordinator{CutTaken{take.sample_index, take.run,
                                           take.number, std::move(gone)}});
}

void World::perform(RestoreCut& restore) {
  ++outcome_.restores;
  const auto& cuts = cuts_[restore.sample_index];
  const auto cut = cuts.find(restore.number);
  ledger_.expect(cut != cuts.end(),
                 "a sample goes back to a cut that is not kept");
  if (cut != cuts.end()) {
    const auto table =
        store(kHomeProcess).open(restore.sample_index, restore.run);
    ledger_.asked(restore, cut->second.cut.execution_class);
    for (const auto& [slot, symbol] : cut->second.values) {
      ledger_.expect(table->put(slot, symbol),
                     "a slot is written with another value");
    }
    check_room(kHomeProcess);
  }
}

void World::perform(int index, FreeOwn& free) {
  for (const FreedSlots& freed : free.frees) {
    store(process_of(index)).free(freed);
  }
  look_after_waiters(process_of(index));
}

void World::perform(int index, FetchInputs& fetch) {
  const std::uint32_t epoch = at(index).epoch;
  for (const RemoteValue& value : fetch.values) {
    if (value.process == process_of(index)) {
      awaited_[value.process].emplace(index, value.name);
      continue;
    }
    begin_fetch(
        {.process = process_of(index),
         .then =
             [this, index, epoch, value](const std::vector<RemoteValue>& gone) {
               WorkerEvent news = InputHere{value.name};
               if (!gone.empty()) {
                 news = InputGone{value};
               }
               queue_.add(now(), ToWorker{index, epoch, std::move(news)});
             },
         .is_awaited =
             [this, index](const ValueName& name) {
               return is_current(name) && ledger_.is_read(name, index);
             }},
        {value});
  }
  look_after_waiters(process_of(index));
}

// ---- fetching

/// Asks for what is not there yet.
void World::begin_fetch(Fetch fetch, const std::vector<RemoteValue>& values) {
  const std::uint64_t id = ++next_fetch_;
  const int asker = fetch.process;
  fetch.left = values.size() + 1;
  fetches_.emplace(id, std::move(fetch));
  for (const RemoteValue& value : values) {
    if (store(asker).find(value.name)) {
      answered(id, nullptr);
    } else {
      ask(asker, {id, value});
    }
  }
  answered(id, nullptr);
}

void World::answered(std::uint64_t id, const RemoteValue* gone) {
  Fetch& fetch = fetches_.at(id);
  if (gone != nullptr) {
    fetch.gone.push_back(*gone);
  }
  if (--fetch.left == 0) {
    const auto ended = fetches_.extract(id);
    ended.mapped().then(ended.mapped().gone);
  }
}

/// As LinkChannel: a process asks the coordinator's process for the values of
/// other processes.
void World::ask(int asker, const Question& question) {
  const RemoteValue& value = question.value;
  if (!is_linked() || asker == value.process) {
    send(actor_of_process(asker), actor_of_process(value.process), question);
    return;
  }
  const bool is_home = asker == kHomeProcess;
  questions_.push_back(question);
  member(is_home ? value.process : asker)
      .link->fetch(
          is_home ? Side::listener : Side::member,
          std::to_string(questions_.size() - 1),
          [this, question](std::optional<Symbol> symbol) {
            queue_.add(now(), Answer{question.fetch, question.value, symbol});
          },
          now());
}

void World::answer(int process, const Question& question,
                   std::optional<Symbol> symbol) {
  if (const auto& origin = question.origin) {
    member(origin->process)
        .link->give(origin->side, origin->want, symbol, now());
  } else {
    send(actor_of_process(process),
         actor_of_process(fetches_.at(question.fetch).process),
         Answer{question.fetch, question.value, symbol});
  }
}

void World::handle(Question& question) {
  parked_[question.value.process].push_back(question);
  look_after_waiters(question.value.process);
}

void World::look_after_waiters(int process) {
  if (const auto parked = parked_.find(process);
      parked != parked_.end() && !parked->second.empty()) {
    answer_parked(process, std::exchange(parked->second, {}));
  }
  if (const auto awaited = awaited_.find(process); awaited != awaited_.end()) {
    tell_who_awaits(process, awaited->second);
  }
}

void World::answer_parked(int process, const std::vector<Question>& parked) {
  SymbolStore& own = store(process);
  for (const Question& question : parked) {
    const ValueName& name = question.value.name;
    // Who asked may have got an end from its link.
    const auto fetch = fetches_.find(question.fetch);
    const auto symbol = has_ended(process) ? std::nullopt : own.find(name);
    if (!symbol && !has_ended(process) && !own.will_never_hold(name)) {
      parked_[process].push_back(question);
      continue;
    }
    ledger_.expect(symbol || has_ended(process) || is_out(process) ||
                       fetch == fetches_.end() ||
                       !fetch->second.is_awaited(name),
                   "a holder lacks a value that is waited for");
    outcome_.empty_pulls += symbol ? 0 : 1;
    answer(process, question, symbol);
  }
}

void World::tell_who_awaits(int process,
                            std::set<std::pair<int, ValueName>>& awaited) {
  SymbolStore& own = store(process);
  std::erase_if(awaited, [&](const auto& entry) {
    const int worker = entry.first;
    const ValueName& name = entry.second;
    const auto tell = [this, worker](WorkerEvent event) {
      queue_.add(now(), ToWorker{worker, at(worker).epoch, std::move(event)});
    };
    if (own.find(name)) {
      tell(InputHere{name});
    } else if (own.will_never_hold(name)) {
      tell(InputGone{{name, process}});
    } else {
      return false;
    }
    return true;
  });
}

void World::handle(Answer& answer) {
  const int asker = fetches_.at(answer.fetch).process;
  if (has_ended(asker)) {
    return;
  }
  const ValueName& name = answer.value.name;
  if (answer.symbol) {
    ledger_.expect(store(asker)
                       .open(name.sample_index, name.run)
                       ->put(name.slot, *answer.symbol),
                   "a slot is written with another value");
    check_room(asker);
  }
  answered(answer.fetch, answer.symbol ? nullptr : &answer.value);
  look_after_waiters(asker);
}

}  // namespace troupe::actors::simulator
