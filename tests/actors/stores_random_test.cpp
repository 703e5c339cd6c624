// Stores of values, cuts and results under operations in any order, beside
// plain models of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/cut_keeper.h"
#include "actors/parcels.h"
#include "actors/random.h"
#include "actors/result_inbox.h"
#include "kernels/core/error.h"
#include "samplers/noise_source.h"
#include "tests/actors/policy_company.h"
#include "tests/actors/small_tensors.h"

namespace troupe::actors {
namespace {

float number_of(const ValueName& name) {
  return static_cast<float>(name.sample_index * 1000 + name.run * 100 +
                            name.slot);
}

/// A store, and what it should hold: names that were put in their sample's
/// newest run and not freed since.
class RandomStore {
 public:
  explicit RandomStore(std::uint64_t seed) : random_(seed) {}

  void run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFailure(); ++i) {
      act();
      expect_alike();
    }
    // Every question has one answer, at the latest when nothing can come.
    while (!asked_elsewhere_.empty()) {
      answer_elsewhere();
    }
    store_->give_up();
    EXPECT_EQ(num_answers_, num_questions_);
    EXPECT_EQ(channel_->num_open(), 0U);
  }
  [[nodiscard]] int num_here() const { return num_here_; }

 private:
  [[nodiscard]] ValueName some_name() {
    return {random_.below(4), static_cast<std::uint32_t>(random_.below(4)),
            static_cast<samplers::Slot>(1 + random_.below(5))};
  }
  [[nodiscard]] bool is_over(const ValueName& name) {
    return closed_.contains(name.sample_index) ||
           name.run < newest_run_[name.sample_index];
  }
  void begin(std::uint64_t sample, std::uint32_t run) {
    if (!closed_.contains(sample) && run > newest_run_[sample]) {
      newest_run_[sample] = run;
      std::erase_if(held_, [sample](const ValueName& name) {
        return name.sample_index == sample;
      });
      std::erase_if(freed_, [sample](const ValueName& name) {
        return name.sample_index == sample;
      });
    }
  }
  void hold(const ValueName& name) {
    if (!is_over(name) && !freed_.contains(name)) {
      held_.insert(name);
    }
  }

  void act() {
    const ValueName name = some_name();
    const std::uint64_t choice = random_.below(100);
    if (choice < 30) {
      begin(name.sample_index, name.run);
      store_->open(name.sample_index, name.run)
          ->put(name.slot, one(number_of(name)));
      hold(name);
    } else if (choice < 45) {
      begin(name.sample_index, name.run);
      store_->free({name.sample_index, name.run, {name.slot}});
      held_.erase(name);
      if (!is_over(name)) {
        freed_.insert(name);
      }
    } else if (choice < 60) {
      ask(name, choice < 52);
    } else if (choice < 75) {
      fetch(name);
    } else if (choice < 94) {
      answer_elsewhere();
    } else if (choice < 99) {
      store_->close(name.sample_index, name.run);
      begin(name.sample_index, name.run + 1);
    } else {
      store_->close(name.sample_index);
      closed_.insert(name.sample_index);
      std::erase_if(held_, [&name](const ValueName& held) {
        return held.sample_index == name.sample_index;
      });
    }
  }

  /// Who waits here, or asks from another process.
  void ask(const ValueName& name, bool from_elsewhere) {
    ++num_questions_;
    begin(name.sample_index, name.run);
    if (from_elsewhere) {
      store_->give(name, [this, name](const std::optional<Parcel>& parcel) {
        answered(parcel.has_value());
        if (parcel) {
          EXPECT_TRUE(same(std::get<Tensor>(unpack(*parcel).value()),
                           one(number_of(name))));
        }
      });
    } else {
      store_->await(name, [this](bool is_here) { answered(is_here); });
    }
  }
  void fetch(const ValueName& name) {
    ++num_questions_;
    begin(name.sample_index, name.run);
    const int holder = random_.between(1, 3);
    const std::size_t before = channel_->num_open();
    store_->fetch({name, holder}, [this](bool is_here) { answered(is_here); });
    if (channel_->num_open() > before) {
      asked_elsewhere_.emplace(holder, name);
    }
  }
  void answer_elsewhere() {
    if (asked_elsewhere_.empty()) {
      return;
    }
    auto at = asked_elsewhere_.begin();
    std::advance(at, random_.below(asked_elsewhere_.size()));
    const auto [holder, name] = *at;
    asked_elsewhere_.erase(at);
    const bool is_there = random_.chance(0.7);
    EXPECT_GE(
        channel_->answer(holder, name,
                         is_there ? std::optional(pack(one(number_of(name))))
                                  : std::nullopt),
        1U);
    if (is_there) {
      hold(name);
    }
  }
  void answered(bool is_here) {
    ++num_answers_;
    num_here_ += is_here ? 1 : 0;
  }

  void expect_alike() {
    std::size_t found = 0;
    for (std::uint64_t sample = 0; sample < 4; ++sample) {
      for (std::uint32_t run = 0; run < newest_run_[sample]; ++run) {
        EXPECT_EQ(store_->open(sample, run)->size(), 0U) << "run " << run;
      }
      const auto table = store_->open(sample, newest_run_[sample]);
      for (samplers::Slot slot = 1; slot <= 5; ++slot) {
        const ValueName name{sample, newest_run_[sample], slot};
        const auto value = table->find(slot);
        EXPECT_EQ(value.has_value(), held_.contains(name)) << "slot " << slot;
        found += value ? 1 : 0;
        if (value) {
          EXPECT_TRUE(same(std::get<Tensor>(*value), one(number_of(name))));
        }
      }
    }
    EXPECT_EQ(found, held_.size());
    EXPECT_EQ(store_->size(), 4 - closed_.size());
  }

  Random random_;
  samplers::PhiloxNoise noise_{3};
  std::shared_ptr<ManualValueChannel> channel_ =
      std::make_shared<ManualValueChannel>();
  std::shared_ptr<ValueStore> store_ = std::make_shared<ValueStore>(
      short_schedule(), noise_, Shape{1, 2, 2}, channel_);
  std::map<std::uint64_t, std::uint32_t> newest_run_;  ///< by sample
  std::set<std::uint64_t> closed_;
  std::set<ValueName> held_;
  std::set<ValueName> freed_;  ///< of newest runs
  std::set<std::pair<int, ValueName>> asked_elsewhere_;
  int num_questions_ = 0;
  int num_answers_ = 0;
  int num_here_ = 0;
};

TEST(ValueStore, DoesAsItsModelUnderOperationsInAnyOrder) {
  int here = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomStore store(seed);
    store.run(200);
    ASSERT_FALSE(testing::Test::HasFailure());
    here += store.num_here();
  }
  EXPECT_GE(here, 1000);
}

/// Cuts of a few samples: taken whole or in vain, restored, forgotten.
class RandomCuts {
 public:
  explicit RandomCuts(std::uint64_t seed) : random_(seed) {}

  void act() {
    const std::uint64_t sample = random_.below(3);
    const std::uint64_t choice = random_.below(10);
    if (choice < 5) {
      take(sample);
    } else if (choice < 9) {
      restore(sample);
    } else {
      keeper_.drop(sample);
      kept_.erase(sample);
    }
  }
  [[nodiscard]] int num_restored() const { return num_restored_; }
  [[nodiscard]] int num_refused() const { return num_refused_; }

 private:
  static constexpr int kElsewhere = 7;

  void take(std::uint64_t sample) {
    TakeCut take;
    take.sample_index = sample;
    take.run = runs_[sample];
    take.number = ++next_cut_;
    if (!kept_[sample].empty()) {
      take.last = *kept_[sample].rbegin();
    }
    const ValueName here{sample, take.run, slot_of(take.number)};
    const ValueName there{sample, take.run, slot_of(take.number) + 1};
    take.cut.slots = {here.slot, there.slot};
    take.values = {{here, kHomeProcess}, {there, kElsewhere}};
    const bool has_here = random_.chance(0.8);
    const bool has_there = random_.chance(0.8);
    if (has_here) {
      store_->open(sample, take.run)->put(here.slot, one(number_of(here)));
    }
    std::promise<std::vector<RemoteValue>> said;
    keeper_.take(take, [&said](std::vector<RemoteValue> gone) {
      said.set_value(std::move(gone));
    });
    EXPECT_EQ(
        channel_->answer(kElsewhere, there,
                         has_there ? std::optional(pack(one(number_of(there))))
                                   : std::nullopt),
        1U);
    const bool is_whole = has_here && has_there;
    EXPECT_EQ(said.get_future().get().empty(), is_whole);
    // Of the earlier ones only the last is still wanted.
    std::erase_if(kept_[sample],
                  [&take](std::uint64_t n) { return n != take.last; });
    if (is_whole) {
      kept_[sample].insert(take.number);
      values_[take.number] = {one(number_of(here)), one(number_of(there))};
    }
  }

  void restore(std::uint64_t sample) {
    const std::uint64_t number =
        next_cut_ - std::min(next_cut_, random_.below(4));
    if (!kept_[sample].contains(number)) {
      ++num_refused_;
      EXPECT_THROW(keeper_.restore({sample, runs_[sample] + 1, number}), Error);
      return;
    }
    ++num_restored_;
    keeper_.restore({sample, ++runs_[sample], number});
    const auto table = store_->open(sample, runs_[sample]);
    EXPECT_EQ(table->size(), 2U);
    const auto& [here, there] = values_.at(number);
    EXPECT_TRUE(same(std::get<Tensor>(table->get(slot_of(number))), here));
    EXPECT_TRUE(same(std::get<Tensor>(table->get(slot_of(number) + 1)), there));
  }

  /// No slot is used by two cuts.
  [[nodiscard]] static samplers::Slot slot_of(std::uint64_t number) {
    return static_cast<samplers::Slot>(2 * number + 1);
  }

  Random random_;
  samplers::PhiloxNoise noise_{3};
  std::shared_ptr<ManualValueChannel> channel_ =
      std::make_shared<ManualValueChannel>();
  std::shared_ptr<ValueStore> store_ = std::make_shared<ValueStore>(
      short_schedule(), noise_, Shape{1, 2, 2}, channel_);
  CutKeeper keeper_{store_};
  std::uint64_t next_cut_ = 0;
  std::map<std::uint64_t, std::uint32_t> runs_;                ///< by sample
  std::map<std::uint64_t, std::set<std::uint64_t>> kept_;      ///< by sample
  std::map<std::uint64_t, std::pair<Tensor, Tensor>> values_;  ///< by cut
  int num_restored_ = 0;
  int num_refused_ = 0;
};

TEST(CutKeeper, DoesAsItsModelUnderOperationsInAnyOrder) {
  int restored = 0;
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCuts cuts(seed);
    for (int i = 0; i < 150 && !testing::Test::HasFailure(); ++i) {
      cuts.act();
    }
    ASSERT_FALSE(testing::Test::HasFailure());
    restored += cuts.num_restored();
    refused += cuts.num_refused();
  }
  EXPECT_GE(restored, 100);
  EXPECT_GE(refused, 100);
}

TEST(ResultInbox, KeepsEachWorkersOrderAndWakesOncePerTake) {
  constexpr int kSenders = 3;
  constexpr std::uint64_t kResults = 3000;
  ResultInbox inbox;
  std::atomic<int> wakes{0};
  std::vector<std::jthread> senders;
  for (int worker = 0; worker < kSenders; ++worker) {
    senders.emplace_back([&inbox, &wakes, worker] {
      for (std::uint64_t n = 0; n < kResults; ++n) {
        GrantResult result;
        result.worker = worker;
        result.grants = {n};
        wakes += inbox.push(std::move(result)) ? 1 : 0;
      }
    });
  }
  std::map<int, std::uint64_t> next;
  std::vector<GrantResult> taken;
  int takes = 0;
  for (std::uint64_t left = kSenders * kResults; left > 0;
       left -= taken.size()) {
    inbox.take(taken);
    takes += taken.empty() ? 0 : 1;
    for (const GrantResult& result : taken) {
      ASSERT_EQ(result.grants.at(0), next[result.worker]++);
    }
  }
  senders.clear();
  EXPECT_EQ(wakes, takes);
}

}  // namespace
}  // namespace troupe::actors
