// Which process a LinkChannel asks for a value that came damaged, and how it
// reports the giver of the damaged value.

#include "actors/remote/link_channel.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/tensor.h"
#include "net/inproc_channel.h"

namespace troupe::actors {
namespace {

constexpr ValueName kName{3, 1, 7};

Parcel one_value() {
  return {{"x", Tensor::from<float>(std::vector{1.0F, 2.0F}, Shape{2})}};
}

/// Keeps every question until a test answers it.
class ManualHub final : public net::Hub {
 public:
  static constexpr net::PeerId kDialled = 99;
  std::string listen(const std::string&) override { return {}; }
  net::PeerId dial(const std::string&, net::DialOptions) override {
    return kDialled;
  }
  void accept(net::PeerId, std::string, std::string) override {}
  void refuse(net::PeerId, std::string) override {}
  void leave(net::PeerId peer, std::string) override { left.push_back(peer); }
  net::SendResult send(net::PeerId, net::SharedBytes) override { return {}; }
  void fetch(net::PeerId peer, std::string key, net::FetchOptions,
             net::FetchTaker taker) override {
    asked.emplace_back(peer, std::move(key));
    takers_.push_back(std::move(taker));
  }
  void give(net::WantId want, net::Value value) override {
    given[want] = true;
    values[want] = std::move(value);
  }
  void give_nothing(net::WantId want) override { given[want] = false; }

  /// Of the newest question.
  void find() { answer({net::FetchStatus::found, to_link(one_value()), {}}); }
  void damage() { answer({net::FetchStatus::corrupt, {}, "other bytes"}); }
  [[nodiscard]] std::pair<net::PeerId, std::string> newest() const {
    return asked.empty() ? std::pair<net::PeerId, std::string>{} : asked.back();
  }
  void lack() { answer({net::FetchStatus::gone, {}, "not here"}); }
  void delay() { answer({net::FetchStatus::late, {}, "late"}); }

  std::vector<std::pair<net::PeerId, std::string>> asked;
  std::vector<net::PeerId> left;
  std::map<net::WantId, bool> given;  ///< a value, or none
  std::map<net::WantId, net::Value> values;

 private:
  void answer(net::Fetched fetched) {
    std::exchange(takers_.at(takers_.size() - 1), nullptr)(std::move(fetched));
  }

  std::vector<net::FetchTaker> takers_;
};

constexpr std::uint64_t kJob = 77;

/// The key of a value of the job.
RunValueKey at(int holder, bool came_damaged = false) {
  return {kJob, holder, kName, came_damaged};
}

std::pair<net::PeerId, std::string> asked_at(net::PeerId peer,
                                             const ValueKey& key) {
  return {peer, wire::encode(key)};
}

/// That of a worker's process, number 2, with links to 0 and 1.
class DamageAtAReader : public testing::Test {
 protected:
  DamageAtAReader() {
    channel.open(hub, 2);
    channel.set_job(kJob);
    channel.set_peer(kHomeProcess, 10);
    channel.set_peer(1, 11);
  }
  void get(int holder) {
    channel.get(holder, kName, [this](const std::optional<Parcel>& parcel) {
      came.push_back(parcel.has_value());
    });
  }

  ManualHub hub;
  std::vector<int> blamed;
  std::vector<bool> came;
  LinkChannel channel{std::make_shared<net::InprocValueChannel>(),
                      {.relay = kHomeProcess,
                       .on_damage = [this](int process, const std::string&) {
                         blamed.push_back(process);
                       }}};
};

TEST_F(DamageAtAReader, IsToldOnceTheValueHasComeAnotherWay) {
  get(1);
  EXPECT_EQ(hub.newest(), asked_at(11, at(1)));
  hub.damage();
  EXPECT_EQ(hub.left, std::vector<net::PeerId>{11});
  EXPECT_EQ(hub.newest(), asked_at(10, at(1, true)));
  EXPECT_TRUE(came.empty());
  EXPECT_TRUE(blamed.empty());
  hub.find();
  EXPECT_EQ(came, std::vector<bool>{true});
  EXPECT_EQ(blamed, std::vector<int>{1});
  get(1);  // its values are whole now
  EXPECT_EQ(hub.newest(), asked_at(10, at(1)));
  hub.find();
  EXPECT_EQ(blamed.size(), 1U) << "reported twice";
}

TEST_F(DamageAtAReader, IsToldOfALaterValueIfThisOneDoesNotCome) {
  get(1);
  hub.damage();
  hub.lack();
  EXPECT_EQ(came, std::vector<bool>{false});
  EXPECT_TRUE(blamed.empty()) << "who reads may be at fault";
  get(1);
  hub.find();
  EXPECT_EQ(blamed, std::vector<int>{1});
}

TEST_F(DamageAtAReader, IsOfTheCoordinatorsProcessIfThatRelays) {
  get(1);
  hub.damage();
  hub.damage();
  EXPECT_EQ(came, std::vector<bool>{false});
  EXPECT_EQ(blamed, std::vector<int>{kHomeProcess});
  get(kHomeProcess);
  hub.damage();
  EXPECT_EQ(came, (std::vector<bool>{false, false}));
  EXPECT_EQ(blamed, (std::vector<int>{kHomeProcess, kHomeProcess}));
  EXPECT_EQ(hub.asked.size(), 3U);
}

TEST_F(DamageAtAReader, IsNotAskedAboutAtAWorker) {
  EXPECT_FALSE(channel.answer(1, at(2, true)));
  EXPECT_TRUE(channel.answer(1, at(2)));
}

TEST_F(DamageAtAReader, GivesNoValueOfAnotherJob) {
  RunValueKey other = at(2);
  ++other.job;
  EXPECT_FALSE(channel.answer(1, other));
  EXPECT_TRUE(hub.given.empty());
}

/// That of the coordinator's process, with links to 1 and 2.
class DamageAtTheRelay : public testing::Test {
 protected:
  DamageAtTheRelay() {
    channel.open(hub, kHomeProcess);
    channel.set_job(kJob);
    channel.set_peer(1, 11);
    channel.set_peer(2, 12);
  }

  ManualHub hub;
  std::optional<int> other;
  std::vector<std::pair<ValueName, int>> searched;
  std::shared_ptr<net::InprocValueChannel> own =
      std::make_shared<net::InprocValueChannel>();
  LinkChannel channel{
      own, {.find_other = [this](const ValueName& name, int holder, auto then) {
        searched.emplace_back(name, holder);
        then(other);
      }}};
};

TEST_F(DamageAtTheRelay, IsMendedByAnotherHolder) {
  other = 2;
  ASSERT_TRUE(channel.answer(5, at(1, true)));
  ASSERT_EQ(searched.size(), 1U);
  EXPECT_EQ(searched[0], std::pair(kName, 1));
  EXPECT_EQ(hub.newest(), asked_at(12, at(2)));
  hub.find();
  EXPECT_EQ(hub.asked.size(), 1U);
  EXPECT_TRUE(hub.given.at(5));
}

TEST_F(DamageAtTheRelay, IsMendedByTheSameHolderIfThereIsNoOther) {
  ASSERT_TRUE(channel.answer(5, at(1, true)));
  EXPECT_EQ(hub.newest(), asked_at(11, at(1)));
  hub.find();
  EXPECT_TRUE(hub.given.at(5));
}

TEST_F(DamageAtTheRelay, IsMendedByTheSameHolderIfTheOtherHasNothing) {
  other = 2;
  ASSERT_TRUE(channel.answer(5, at(1, true)));
  hub.lack();
  EXPECT_EQ(hub.newest(), asked_at(11, at(1)));
  hub.lack();
  EXPECT_EQ(hub.asked.size(), 2U);
  EXPECT_FALSE(hub.given.at(5));
}

TEST_F(DamageAtTheRelay, IsMendedByItselfIfItHoldsTheValue) {
  other = kHomeProcess;
  own->attach(kHomeProcess,
              [](const ValueName&, const ValueChannel::Taker& taker) {
                taker(one_value());
              });
  ASSERT_TRUE(channel.answer(5, at(1, true)));
  EXPECT_TRUE(hub.asked.empty());
  EXPECT_TRUE(hub.given.at(5));
}

TEST_F(DamageAtTheRelay, IsNotLookedForInOtherQuestions) {
  ASSERT_TRUE(channel.answer(5, at(1)));
  EXPECT_TRUE(searched.empty());
}

/// That of a worker's process, number 2, which knows where 3 listens.
class QuestionsForAProcess : public testing::Test {
 protected:
  QuestionsForAProcess() {
    channel.open(hub, 2, {"own request", "own answer"});
    channel.set_peer(kHomeProcess, 10);
    channel.set_address({3, {"ipc:///a"}, {"request", "answer"}, true});
  }
  void ask(int process) {
    channel.ask(process, ModelChunksKey{}, {}, [this](const net::Fetched& its) {
      came.push_back(its.status);
    });
  }

  ManualHub hub;
  std::vector<net::FetchStatus> came;
  LinkChannel channel{std::make_shared<net::InprocValueChannel>(),
                      {.relay = kHomeProcess}};
};

TEST_F(QuestionsForAProcess, WaitForALink) {
  EXPECT_EQ(channel.model_givers(), std::vector<int>{3});
  ask(3);
  EXPECT_TRUE(hub.asked.empty());
  channel.came_up(ManualHub::kDialled,
                  {.role = "worker",
                   .record = wire::encode(PeerGreeting{3, "answer"}),
                   .address = {}});
  EXPECT_EQ(hub.newest(), asked_at(ManualHub::kDialled, ModelChunksKey{}));
  hub.lack();
  EXPECT_EQ(came, std::vector<net::FetchStatus>{net::FetchStatus::gone});
}

TEST_F(QuestionsForAProcess, AreRelayedByNobody) {
  ask(3);
  channel.lost(ManualHub::kDialled, "nobody is there");
  EXPECT_EQ(came, std::vector<net::FetchStatus>{net::FetchStatus::lost});
  ask(4);
  EXPECT_EQ(came.size(), 2U) << "nobody knows it";
  EXPECT_TRUE(hub.asked.empty());
  ask(kHomeProcess);
  EXPECT_EQ(hub.newest(), asked_at(10, ModelChunksKey{}));
}

TEST_F(QuestionsForAProcess, EndWithTheChannel) {
  ask(3);
  channel.close();
  ask(kHomeProcess);
  EXPECT_EQ(came, std::vector(2, net::FetchStatus::lost));
}

/// A measurement of the link to a process, by hand.
class Measurement : public DamageAtAReader {
 protected:
  void measure(int process) {
    channel.measure(process, [this](const std::optional<LinkPace>& pace) {
      ++num_ended;
      measured = pace;
    });
  }

  /// Where a test is held up, the way is a long one, and takes a third value.
  void find_all() {
    while (num_ended == 0) {
      hub.find();
    }
  }

  int num_ended = 0;
  std::optional<LinkPace> measured;
};

TEST_F(Measurement, IsOfAShortValueAndALongOne) {
  measure(1);
  EXPECT_EQ(hub.newest(), asked_at(11, ProbeKey{1}));
  hub.find();
  EXPECT_EQ(hub.newest(), asked_at(11, ProbeKey{65536}));
  EXPECT_EQ(num_ended, 0);
  find_all();
  ASSERT_TRUE(measured);
  EXPECT_GT(measured->bytes_per_second, 0);
}

TEST_F(Measurement, TellsASlowLinkFromOneThatDoesNotAnswer) {
  measure(1);
  hub.find();
  hub.delay();  // so much did not come in its time
  EXPECT_EQ(num_ended, 1);
  ASSERT_TRUE(measured);
  for (const bool is_late : {false, true}) {
    measure(1);
    is_late ? hub.delay() : hub.lack();
    EXPECT_FALSE(measured);
  }
  measure(7);  // nobody knows it, and the question is not relayed
  EXPECT_FALSE(measured);
  EXPECT_EQ(num_ended, 4);
}

TEST_F(Measurement, IsAnsweredByEachProcess) {
  EXPECT_TRUE(channel.answer(1, ProbeKey{5}));
  ASSERT_EQ(hub.values[1].size(), 1U);
  EXPECT_EQ(hub.values[1][0].size, 5U);
  EXPECT_TRUE(key_of(wire::encode(ProbeKey{kMostProbeBytes})));
  EXPECT_FALSE(key_of(wire::encode(ProbeKey{kMostProbeBytes + 1})));
  EXPECT_FALSE(key_of("probe/1"));
}

TEST_F(Measurement, IsMadeForTheCoordinator) {
  EXPECT_TRUE(channel.answer(1, PaceKey{0}));
  EXPECT_EQ(hub.newest(), asked_at(10, ProbeKey{1}));
  while (!hub.given.contains(1)) {
    hub.find();
  }
  ASSERT_TRUE(hub.given[1]);
  const std::optional<LinkPace> pace = pace_of(hub.values[1]);
  ASSERT_TRUE(pace);
  EXPECT_GT(pace->bytes_per_second, 0);
  EXPECT_TRUE(channel.answer(2, PaceKey{1}));
  hub.lack();
  EXPECT_FALSE(hub.given[2]);
}

}  // namespace
}  // namespace troupe::actors
