// Values with names: where they are, how they get from one process to another,
// and when they are freed.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "actors/directory.h"
#include "actors/parcels.h"
#include "actors/value_store.h"
#include "samplers/noise_source.h"
#include "tests/actors/job_support.h"
#include "tests/actors/policy_company.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using samplers::SlotTable;
using samplers::SolverState;

Tensor one(float value) {
  return Tensor::from<float>(std::array{value}, Shape{1});
}

TEST(RunDirectory, ListsAHolderOnItsWordAlone) {
  RunDirectory values;
  values.expect(5, 2);
  EXPECT_FALSE(values.holder(5, 2));
  values.add(5, 3, {});  // was never asked for it
  EXPECT_FALSE(values.holder(5, 3));
  values.add(5, 2, {});
  EXPECT_EQ(values.holder(5, 0), 2);
  values.remove(5, 2);
  EXPECT_FALSE(values.holder(5, 0));
}

TEST(RunDirectory, PrefersTheNearHolder) {
  RunDirectory values;
  for (int process : {1, 2, 3}) {
    values.expect(5, process);
    values.add(5, process, {});
  }
  EXPECT_EQ(values.holder(5, 2), 2);
  EXPECT_EQ(values.holder(5, 3), 3);
  EXPECT_TRUE(values.holder(5, 9));
}

TEST(RunDirectory, TellsOfAFreedValueWhoeverMayHoldIt) {
  RunDirectory values;
  values.expect(5, 1);
  values.expect(5, 2);
  values.add(5, 1, {});
  EXPECT_EQ(values.free(5), (std::vector<int>{1, 2}));
  EXPECT_TRUE(values.free(5).empty());
  values.add(5, 2, {});  // late: it has been told
  EXPECT_FALSE(values.holder(5, 2));
  EXPECT_EQ(values.processes(), (std::set<int>{1, 2}));
}

TEST(RunDirectory, LosesWhatLayInAProcessOrInAMemory) {
  constexpr Device kGpu{DeviceKind::cuda, 1};
  RunDirectory values;
  for (const samplers::Slot slot : {1U, 2U}) {
    for (int process : {1, 2}) {
      values.expect(slot, process);
    }
  }
  values.add(1, 1, kGpu);
  values.add(2, 1, {});
  values.add(2, 2, kGpu);
  values.lose(1, kGpu);
  EXPECT_FALSE(values.holder(1, 1));
  EXPECT_EQ(values.holder(2, 1), 1);
  EXPECT_EQ(values.holder(2, 2), 2) << "another process's GPU";
  values.lose(1);
  EXPECT_EQ(values.holder(2, 1), 2);
  EXPECT_EQ(values.free(2), std::vector<int>{2});
}

bool same(const Tensor& a, const Tensor& b) {
  return a.empty() ? b.empty() : bytes_equal(a, b);
}

TEST(Parcels, BringEveryKindOfValueBack) {
  SolverState state;
  state.latents = one(1);
  state.history = {one(2), one(3)};
  state.history_calls = {7, 4};
  state.slope = one(5);
  state.order = 2;
  const auto back = unpack(pack(state));
  ASSERT_TRUE(back);
  const auto& got = std::get<SolverState>(*back);
  EXPECT_TRUE(same(got.latents, state.latents));
  ASSERT_EQ(got.history.size(), 2U);
  EXPECT_TRUE(same(got.history[0], state.history[0]));
  EXPECT_TRUE(same(got.history[1], state.history[1]));
  EXPECT_EQ(got.history_calls, state.history_calls);
  EXPECT_TRUE(got.anchor.empty());
  EXPECT_TRUE(same(got.slope, state.slope));
  EXPECT_EQ(got.order, 2);

  const auto tensor = unpack(pack(one(9)));
  EXPECT_TRUE(same(std::get<Tensor>(tensor.value()), one(9)));

  const Boundary boundary{{"image", one(1)}, {"tensor", one(2)}};
  const auto crossed = std::get<Boundary>(unpack(pack(boundary)).value());
  ASSERT_EQ(crossed.size(), 2U);
  EXPECT_EQ(crossed[1].name, "tensor");
  EXPECT_TRUE(same(crossed[1].tensor, one(2)));
}

TEST(Parcels, RefuseWhatIsNone) {
  SolverState state;
  state.latents = one(1);
  state.history = {one(2)};
  state.history_calls = {3};
  const Parcel good = pack(state);
  ASSERT_TRUE(unpack(good));
  EXPECT_FALSE(unpack({}));
  EXPECT_FALSE(unpack({{"tensor", one(1)}, {"tensor", one(1)}}));
  EXPECT_FALSE(unpack({{"other", one(1)}}));
  Parcel bad = good;
  bad[0].tensor = one(1);  // no numbers
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"latents", one(1)});  // twice
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"history", one(1)});  // without its call
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad[0].tensor = Tensor::from<std::int64_t>(
      std::array<std::int64_t, 2>{1000, 3}, Shape{2});  // no such order
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.push_back({"anchor", one(1)});  // of order 0, with history
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad.erase(bad.begin() + 1);  // no latents
  EXPECT_FALSE(unpack(bad));
  bad = good;
  bad[0].tensor =
      Tensor::from<std::int64_t>(std::array<std::int64_t, 2>{0, -1}, Shape{2});
  EXPECT_FALSE(unpack(bad));
}

class Stores : public testing::Test {
 protected:
  [[nodiscard]] std::shared_ptr<ValueStore> make() {
    return std::make_shared<ValueStore>(short_schedule(), noise_,
                                        Shape{1, 2, 2}, channel_);
  }
  samplers::PhiloxNoise noise_{3};
  std::shared_ptr<ManualValueChannel> channel_ =
      std::make_shared<ManualValueChannel>();
};

TEST_F(Stores, FetchWhatTheyLackAndSayWhenAllIsThere) {
  const auto store = make();
  store->open(4)->put(1, one(1));
  int times = 0;
  std::vector<RemoteValue> gone;
  store->fetch(
      std::vector<RemoteValue>{{{4, 0, 1}, 7}, {{4, 0, 2}, 7}, {{4, 0, 3}, 8}},
      [&](std::vector<RemoteValue> missing) {
        ++times;
        gone = std::move(missing);
      });
  EXPECT_EQ(channel_->num_open(), 2U) << "one was there";
  EXPECT_EQ(channel_->answer(7, {4, 0, 2}, pack(one(2))), 1U);
  EXPECT_EQ(times, 0);
  EXPECT_EQ(channel_->answer(8, {4, 0, 3}, pack(one(3))), 1U);
  EXPECT_EQ(times, 1);
  EXPECT_TRUE(gone.empty());
  EXPECT_TRUE(same(std::get<Tensor>(store->open(4)->get(3)), one(3)));
  store->fetch(std::vector<RemoteValue>{{{4, 0, 3}, 8}},
               [&](const std::vector<RemoteValue>&) { ++times; });
  EXPECT_EQ(times, 2) << "at once";
}

TEST_F(Stores, SayWhichValuesWereGone) {
  const auto store = make();
  std::optional<std::vector<RemoteValue>> gone;
  const RemoteValue lost{{4, 0, 2}, 7};
  const RemoteValue garbled{{4, 0, 3}, 8};
  store->fetch(std::vector{lost, garbled},
               [&](std::vector<RemoteValue> missing) { gone = missing; });
  (void)channel_->answer(7, lost.name, std::nullopt);
  (void)channel_->answer(8, garbled.name, Parcel{{"what", one(1)}});
  ASSERT_TRUE(gone);
  EXPECT_EQ(*gone, (std::vector{lost, garbled}));
}

TEST_F(Stores, LetAFetchedValueGoThatCameTooLate) {
  const auto store = make();
  const auto ask = [&](std::uint32_t run, samplers::Slot slot) {
    store->fetch(std::vector<RemoteValue>{{{4, run, slot}, 7}},
                 [](const std::vector<RemoteValue>&) {});
  };
  ask(0, 1);
  store->free({4, 0, {1}});
  (void)channel_->answer(7, {4, 0, 1}, pack(one(1)));
  EXPECT_FALSE(store->open(4)->find(1));
  ask(0, 2);
  store->close(4, 0);
  (void)channel_->answer(7, {4, 0, 2}, pack(one(1)));
  EXPECT_FALSE(store->open(4, 0)->find(2));
  EXPECT_FALSE(store->open(4, 1)->find(2));
  ask(1, 3);
  store->close(4);
  (void)channel_->answer(7, {4, 1, 3}, pack(one(1)));
  EXPECT_EQ(store->size(), 0U);
}

TEST_F(Stores, OutliveTheirOwnerWhileAQuestionIsOpen) {
  auto store = make();
  int times = 0;
  store->fetch(std::vector<RemoteValue>{{{4, 0, 1}, 7}},
               [&](const std::vector<RemoteValue>&) { ++times; });
  store.reset();
  (void)channel_->answer(7, {4, 0, 1}, pack(one(1)));
  EXPECT_EQ(times, 1);
}

/// What another process gets of a value: nothing yet, no value, or its tensor.
struct Given {
  int times = 0;
  std::optional<Parcel> parcel;
};

void ask(ValueStore& store, const ValueName& name, Given& given) {
  store.give(name, [&given](std::optional<Parcel> parcel) {
    ++given.times;
    given.parcel = std::move(parcel);
  });
}

TEST_F(Stores, GiveAValueToOthersAsSoonAsItIsThere) {
  const auto store = make();
  Given before;
  ask(*store, {4, 0, 1}, before);
  EXPECT_EQ(before.times, 0);
  store->open(4)->put(1, one(1));
  ASSERT_EQ(before.times, 1);
  EXPECT_TRUE(same(before.parcel->at(0).tensor, one(1)));
  Given after;
  ask(*store, {4, 0, 1}, after);
  ASSERT_EQ(after.times, 1);
  EXPECT_TRUE(same(after.parcel->at(0).tensor, one(1)));
}

TEST_F(Stores, SayThatAValueWillNotCome) {
  const auto store = make();
  Given freed;
  Given over;
  Given later;
  Given ended;
  Given left;
  ask(*store, {4, 0, 1}, freed);
  store->free({4, 0, {1}});
  EXPECT_EQ(freed.times, 1);
  ask(*store, {4, 0, 2}, over);
  store->close(4, 0);
  EXPECT_EQ(over.times, 1);
  ask(*store, {4, 0, 3}, later);
  EXPECT_EQ(later.times, 1) << "its run is over";
  ask(*store, {4, 1, 3}, ended);
  store->close(4);
  EXPECT_EQ(ended.times, 1);
  ask(*store, {5, 0, 1}, left);
  store->give_up();
  EXPECT_EQ(left.times, 1);
  for (const Given* given : {&freed, &over, &later, &ended, &left}) {
    EXPECT_FALSE(given->parcel);
  }
}

TEST_F(Stores, SayWhenAWorkerOfTheirsHasMadeAValue) {
  const auto store = make();
  std::vector<bool> heard;
  const auto wait_for = [&](samplers::Slot slot) {
    store->await({4, 0, slot}, [&](bool is_here) { heard.push_back(is_here); });
  };
  wait_for(1);
  wait_for(1);
  wait_for(2);
  EXPECT_TRUE(heard.empty());
  store->open(4)->put(1, one(1));
  EXPECT_EQ(heard, (std::vector<bool>{true, true}));
  wait_for(1);
  EXPECT_EQ(heard.size(), 3U);
  // A new run ends the wait for the one before.
  (void)store->open(4, 1);
  EXPECT_EQ(heard, (std::vector<bool>{true, true, true, false}));
}

TEST_F(Stores, MakeOneInitialStateInEveryProcess) {
  const auto a = make();
  const auto b = make();
  EXPECT_EQ(a->open(4)->size(), 0U);
  const auto state_of = [](ValueStore& store) {
    return std::get<SolverState>(store.open(4)->get(samplers::kInitialSlot));
  };
  EXPECT_TRUE(same(state_of(*a).latents, state_of(*b).latents));
  a->free({4, 0, {samplers::kInitialSlot}});
  EXPECT_FALSE(a->open(4)->find(samplers::kInitialSlot));
}

/// One worker in each of `count` processes, from `first` on.
CoordinatorOptions in_processes(int count, int first = 0, bool decode = false) {
  CoordinatorOptions options{.decode = decode};
  for (int w = 0; w < count; ++w) {
    options.workers.push_back({.process = first + w});
  }
  return options;
}

TEST(CoordinatorValues, NamesWhoHoldsAnInputThatTheWorkerLacks) {
  // Two segments, one in each process: what crosses the cut is fetched.
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  const Grant first = company.take(0);
  EXPECT_TRUE(first.remote_inputs.empty());
  const samplers::Slot boundary = first.tasks[0].task.outputs[0];
  company.on(company.answer(first));
  const Grant second = company.take(1);
  ASSERT_EQ(second.remote_inputs.size(), 1U);
  EXPECT_EQ(second.remote_inputs[0], (RemoteValue{{0, 0, boundary}, 0}));
}

TEST(CoordinatorValues, FreesADeadSlotWhereverItMayBe) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  const Grant first = company.take(0);
  const samplers::Slot boundary = first.tasks[0].task.outputs[0];
  company.on(company.answer(first));
  company.on(company.answer(company.take(1)));
  company.on(TimeTick{});
  const auto is_told = [&](const std::vector<FreedSlots>& frees) {
    return std::ranges::any_of(frees, [&](const FreedSlots& freed) {
      return std::ranges::find(freed.slots, boundary) != freed.slots.end();
    });
  };
  std::set<int> told;
  for (const FreeValues& free : company.freed) {
    if (is_told(free.frees)) {
      told.insert(free.process);
    }
  }
  for (const Grant& grant : company.grants) {
    if (is_told(grant.frees)) {
      told.insert(grant.worker);
    }
  }
  EXPECT_EQ(told, (std::set<int>{0, 1}));
}

TEST(CoordinatorValues, TellsAgainWhatALostGrantTookAlong) {
  Company company({.kind = MethodKind::sequential}, 1, 1, in_processes(1, 1));
  company.raise_all();
  company.run_one(0);
  const std::vector<FreedSlots> frees = company.grants.back().frees;
  ASSERT_FALSE(frees.empty());
  company.kill(0);
  company.on(TimeTick{});
  ASSERT_EQ(company.freed.size(), 1U);
  EXPECT_EQ(company.freed[0].process, 1);
  EXPECT_EQ(company.freed[0].frees.at(0).slots, frees[0].slots);
}

TEST(CoordinatorValues, EndsASampleWhenItsResultIsHome) {
  Company company({.kind = MethodKind::sequential}, 1, 1,
                  in_processes(1, 1, true));
  company.raise_all();
  while (company.run_one(0)) {
  }
  EXPECT_TRUE(company.reports.empty());
  ASSERT_EQ(company.fetches.size(), 1U);
  const FetchValues fetch = company.fetches.front();
  ASSERT_EQ(fetch.values.size(), 2U) << "latents and pixels";
  EXPECT_EQ(fetch.values[1].name.slot, kPixelsSlot);
  EXPECT_EQ(fetch.values[1].process, 1);
  company.on(ValuesFetched{fetch.sample_index, fetch.run + 1, {}});
  EXPECT_TRUE(company.reports.empty()) << "of another run";
  company.on(ValuesFetched{fetch.sample_index, fetch.run, {}});
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.times_ended, 1);
  std::set<int> told;
  for (const DropRuns& drop : company.dropped) {
    EXPECT_FALSE(drop.last_run);
    told.insert(drop.process);
  }
  EXPECT_EQ(told, (std::set<int>{0, 1}));
}

TEST(CoordinatorValues, BeginsASampleAnewWhoseResultIsGone) {
  Company company({.kind = MethodKind::sequential}, 1, 1, in_processes(1, 1));
  company.raise_all();
  while (company.run_one(0)) {
  }
  const FetchValues fetch = company.fetches.at(0);
  company.on(ValuesFetched{fetch.sample_index, fetch.run, fetch.values});
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  EXPECT_EQ(company.dropped.back().last_run, 0U);
  while (company.run_one(0)) {
  }
  const FetchValues again = company.fetches.at(1);
  EXPECT_EQ(again.run, 1U);
  company.on(ValuesFetched{again.sample_index, again.run, {}});
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.end.recoveries, 1);
}

GrantResult nothing_ran(const Grant& grant) {
  GrantResult result;
  for (const SampleTask& work : grant.tasks) {
    result.grants.push_back(work.grant);
  }
  result.worker = grant.worker;
  result.epoch = grant.epoch;
  result.gone = grant.remote_inputs;
  return result;
}

TEST(CoordinatorValues, BeginsASampleAnewWhoseInputNobodyHolds) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  company.run_one(0);
  company.on(nothing_ran(company.take(1)));
  EXPECT_TRUE(company.workers_of_run.contains({0, 1}));
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
  EXPECT_EQ(company.end.recoveries, 1);
}

TEST(CoordinatorValues, GivesUpASampleThatIsLostAgainAndAgain) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  for (int i = 0; i < 200 && company.times_ended == 0; ++i) {
    company.run_one(0);
    if (!company.mailboxes[1].empty()) {
      company.on(nothing_ran(company.take(1)));
    }
  }
  ASSERT_TRUE(company.end.failure);
  EXPECT_NE(company.end.failure->message.find("sample 0 were lost"),
            std::string::npos);
}

constexpr auto kGone = [](int process) {
  return ProcessDown{process, {Errc::job_failed, "node", "is gone", {}}};
};

TEST(CoordinatorValues, GoesOnWithoutAProcessAndBeginsAnewWhatItHeld) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  company.run_one(0);
  company.run_one(1);
  company.on(kGone(1));
  company.forget(1);
  EXPECT_FALSE(company.workers_of_run.contains({0, 1}));
  EXPECT_TRUE(company.workers_of_run.contains({1, 1}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  EXPECT_FALSE(company.end.failure);
  ASSERT_EQ(company.end.lost.size(), 1U);
  EXPECT_EQ(company.end.lost[0].cause.place, "node");
  for (const DropRuns& drop : company.dropped) {
    EXPECT_EQ(drop.process, 0) << "nobody is there";
  }
}

TEST(CoordinatorValues, ListsNothingThatALostProcessSaysLate) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  const Grant late = company.take(1);
  company.on(kGone(1));
  company.forget(1);
  // Nothing of the sample had been made there: it goes on.
  EXPECT_FALSE(company.workers_of_run.contains({1, 1}));
  company.on(company.answer(late));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
  for (const Grant& grant : company.grants) {
    EXPECT_TRUE(grant.remote_inputs.empty()) << "of a process that is gone";
  }
}

TEST(CoordinatorValues, BeginsAnewWhatAProcessWithoutWorkersHeld) {
  // Its only worker is given up before the process ends.
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 3, 1,
                  in_processes(3));
  company.raise_all();
  company.run_one(0);
  company.run_one(1);
  company.kill(1);
  company.on(
      WorkerDown{1, 1, Failure{Errc::job_failed, "worker", "again", {}}});
  company.on(kGone(1));
  EXPECT_FALSE(company.end.failure);
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorValues, KeepsATaskOfALaterRunWhileNobodyIsAlive) {
  Company company({.kind = MethodKind::sequential}, 2, 2, in_processes(2));
  company.grant_duration = std::chrono::milliseconds(20);
  company.raise_all();
  company.run_one(1);
  company.kill(0);
  company.on(kGone(1));
  company.forget(1);
  company.raise(0);
  EXPECT_TRUE(company.workers_of_run.contains({1, 1}));
  company.run_to_end();
  EXPECT_EQ(num_done(company), 2U);
}

TEST(CoordinatorValues, TakesALateGoneForWhatItIs) {
  Company company({.kind = MethodKind::pipeline, .num_segments = 2}, 2, 1,
                  in_processes(2));
  company.raise_all();
  company.run_one(0);
  const GrantResult late = nothing_ran(company.take(1));
  company.kill(1);
  company.on(late);
  company.raise(1);
  company.run_to_end();
  EXPECT_FALSE(company.end.failure);
  EXPECT_EQ(num_done(company), 1U);
}

TEST(CoordinatorValues, EndsTheJobWithTheCoordinatorsProcess) {
  Company company({.kind = MethodKind::batch}, 2, 2, in_processes(2));
  company.raise_all();
  company.on(
      ProcessDown{kHomeProcess, {Errc::internal, "node", "is gone", {}}});
  ASSERT_TRUE(company.end.failure);
  EXPECT_EQ(company.end.failure->place, "node");
}

}  // namespace
}  // namespace troupe::actors
