#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "tests/net/hub_support.h"

namespace troupe::net {
namespace {

using namespace std::chrono_literals;

struct Kind {
  std::string name;
  bool has_keys = false;
};

/// Two processes and a link between them.
class HubLink : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    board_ = make_switchboard();
    HubOptions listening{.role = "coordinator"};
    HubOptions dialling{.role = "worker"};
    if (GetParam().has_keys) {
      listening.keys = make_keys();
      dialling.keys = make_keys();
      listening.keys->allowed.push_back(
          {dialling.keys->own.public_key, "worker"});
      dial_options_.key = listening.keys->own.public_key;
    }
    const bool is_inproc = GetParam().name == "inproc";
    a_ = std::make_unique<Process>(listening,
                                   is_inproc ? board_.get() : nullptr);
    b_ =
        std::make_unique<Process>(dialling, is_inproc ? board_.get() : nullptr);
    std::string endpoint = "inproc://a";
    if (GetParam().name == "ipc") {
      endpoint = "ipc://" + folder_.path() + "/a";
    } else if (GetParam().name == "tcp") {
      endpoint = "tcp://127.0.0.1:*";
    }
    endpoint_ = a_->hub->listen(endpoint);
    dial_options_.record = "hello";
    of_b_ = b_->hub->dial(endpoint_, dial_options_);
    ASSERT_TRUE(b_->witness.wait_up(of_b_))
        << b_->witness.look(of_b_).loss->what;
    ASSERT_TRUE(a_->witness.wait_up(of_a_));
  }

  SocketFolder folder_;
  std::unique_ptr<Switchboard> board_;
  std::unique_ptr<Process> a_;
  std::unique_ptr<Process> b_;
  std::string endpoint_;
  DialOptions dial_options_;
  PeerId of_a_ = 1;  ///< b, as a calls it
  PeerId of_b_ = 0;  ///< a, as b calls it
};

TEST_P(HubLink, GreetsBothWays) {
  const Witness::Peer seen_by_a = a_->witness.look(of_a_);
  EXPECT_EQ(seen_by_a.greeted->role, "worker");
  EXPECT_EQ(seen_by_a.greeted->record, "hello");
  EXPECT_EQ(seen_by_a.greeted->address,
            GetParam().name == "tcp" ? "127.0.0.1" : "");
  const Witness::Peer seen_by_b = b_->witness.look(of_b_);
  EXPECT_EQ(seen_by_b.up->role, "coordinator");
  EXPECT_EQ(seen_by_b.up->record, "welcome");
}

TEST_P(HubLink, DeliversRecordsInOrderBothWays) {
  std::vector<std::string> sent;
  for (int i = 0; i < 300; ++i) {
    std::string record = std::to_string(i) + " ";
    record.resize(i % 50 == 7 ? 600'000 : 10 + i % 5 * 3000, 'x');
    sent.push_back(record);
    for (const auto& [hub, peer] :
         {std::pair(a_->hub.get(), of_a_), std::pair(b_->hub.get(), of_b_)}) {
      while (hub->send(peer, share(record)) == SendResult::no_room) {
        std::this_thread::sleep_for(1ms);
      }
    }
  }
  ASSERT_TRUE(a_->witness.wait_records(of_a_, sent.size()));
  ASSERT_TRUE(b_->witness.wait_records(of_b_, sent.size()));
  EXPECT_TRUE(a_->witness.look(of_a_).records == sent);
  EXPECT_TRUE(b_->witness.look(of_b_).records == sent);
}

TEST_P(HubLink, SaysWhenThereIsNoRoomAndWhenThereIsAgain) {
  const SharedBytes record = share(std::string(4'000'000, 'x'));
  SendResult result = SendResult::queued;
  std::size_t sent = 0;
  while (result == SendResult::queued && sent < 10'000) {
    result = b_->hub->send(of_b_, record);
    sent += result == SendResult::queued ? 1 : 0;
  }
  ASSERT_EQ(result, SendResult::no_room);
  EXPECT_TRUE(b_->witness.wait(
      [&](auto& peers) { return peers[of_b_].num_rooms > 0; }));
  EXPECT_EQ(b_->hub->send(of_b_, record), SendResult::queued);
  EXPECT_TRUE(a_->witness.wait_records(of_a_, sent + 1));
  EXPECT_EQ(b_->hub->send(77, record), SendResult::no_peer);
}

TEST_P(HubLink, BringsValuesBothWays) {
  const Value value{share(std::string("what it is")), share(std::string{}),
                    share(std::string(3'000'000, 'v'))};
  a_->witness.offer("a", value);
  b_->witness.offer("b", value);
  for (const auto& [hub, peer, key] : {std::tuple(a_->hub.get(), of_a_, "b"),
                                       std::tuple(b_->hub.get(), of_b_, "a")}) {
    Taken taken;
    hub->fetch(peer, key, {}, taken.taker());
    const Fetched fetched = taken.wait();
    ASSERT_EQ(fetched.status, FetchStatus::found) << fetched.what;
    ASSERT_EQ(fetched.value.size(), value.size());
    for (std::size_t i = 0; i < value.size(); ++i) {
      EXPECT_TRUE(same_bytes(fetched.value[i], value[i]));
    }
  }
}

TEST_P(HubLink, AnswersOnceTheValueIsMade) {
  Taken taken;
  b_->hub->fetch(of_b_, "later", {}, taken.taker());
  const WantId want = a_->witness.wait_want();
  const std::string bytes(100, 'z');
  a_->hub->give(want, {share(bytes)});
  const Fetched fetched = taken.wait();
  ASSERT_EQ(fetched.status, FetchStatus::found);
  EXPECT_EQ(fetched.value[0].size, 100U);
}

TEST_P(HubLink, SaysWhatIsGoneTooLargeLateOrCancelled) {
  a_->witness.offer("large", {share(std::string(5000, 'x'))});
  Taken taken;
  b_->hub->fetch(of_b_, "never", {}, taken.taker());
  EXPECT_EQ(taken.wait().status, FetchStatus::gone);
  b_->hub->fetch(of_b_, "large", {.most_bytes = 4999}, taken.taker());
  EXPECT_EQ(taken.wait().status, FetchStatus::too_large);
  b_->hub->fetch(of_b_, "later", {.deadline = 30ms}, taken.taker());
  const Fetched late = taken.wait();
  EXPECT_EQ(late.status, FetchStatus::late);
  EXPECT_NE(late.what.find(endpoint_), std::string::npos) << late.what;
}

TEST_P(HubLink, MeasuresTheRoundTrip) {
  EXPECT_TRUE(a_->witness.wait(
      [&](auto& peers) { return peers[of_a_].round_trip.has_value(); }));
  EXPECT_TRUE(b_->witness.wait(
      [&](auto& peers) { return peers[of_b_].round_trip.has_value(); }));
}

TEST_P(HubLink, SaysGoodBye) {
  b_->hub->leave(of_b_, "the worker drains");
  ASSERT_TRUE(a_->witness.wait_lost(of_a_));
  const Loss loss = *a_->witness.look(of_a_).loss;
  EXPECT_EQ(loss.cause, LossCause::left);
  EXPECT_NE(loss.what.find("the worker drains"), std::string::npos);
  EXPECT_EQ(b_->hub->send(of_b_, share(std::string("x"))), SendResult::no_peer);
  EXPECT_FALSE(b_->witness.look(of_b_).loss) << "it left by itself";
}

TEST_P(HubLink, EndsOpenQuestionsWithTheHub) {
  Taken of_b;
  Taken of_a;
  b_->hub->fetch(of_b_, "later", {}, of_b.taker());
  a_->hub->fetch(of_a_, "later", {}, of_a.taker());
  ASSERT_NE(a_->witness.wait_want(), 0U);
  ASSERT_NE(b_->witness.wait_want(), 0U);
  b_->hub.reset();
  EXPECT_EQ(of_b.wait().status, FetchStatus::lost);
  EXPECT_EQ(of_a.wait().status, FetchStatus::lost);
  ASSERT_TRUE(a_->witness.wait_lost(of_a_));
  EXPECT_EQ(a_->witness.look(of_a_).loss->cause, LossCause::left);
}

TEST_P(HubLink, HasSeveralPeersAtOnce) {
  const PeerId second = b_->hub->dial(endpoint_, dial_options_);
  ASSERT_TRUE(b_->witness.wait_up(second));
  ASSERT_TRUE(a_->witness.wait_up(2));
  b_->hub->send(of_b_, share(std::string("by the first")));
  b_->hub->send(second, share(std::string("by the second")));
  ASSERT_TRUE(a_->witness.wait_records(1, 1));
  ASSERT_TRUE(a_->witness.wait_records(2, 1));
  EXPECT_EQ(a_->witness.look(1).records[0], "by the first");
  EXPECT_EQ(a_->witness.look(2).records[0], "by the second");
}

TEST_P(HubLink, BringsManyValuesToTwoAskersAtOnce) {
  const PeerId second = b_->hub->dial(endpoint_, dial_options_);
  ASSERT_TRUE(b_->witness.wait_up(second));
  std::string bytes(std::size_t{2} << 20U, 'v');
  for (std::size_t i = 0; i < bytes.size(); i += 101) {
    bytes[i] = static_cast<char>(i);
  }
  const SharedBytes value = share(std::move(bytes));
  a_->witness.offer("v", {value});
  std::atomic<int> equal = 0;
  std::atomic<int> ended = 0;
  constexpr int kFetches = 40;
  for (int i = 0; i < kFetches; ++i) {
    b_->hub->fetch(i % 2 == 0 ? of_b_ : second, "v", {}, [&](Fetched fetched) {
      equal += fetched.status == FetchStatus::found &&
                       same_bytes(fetched.value[0], value)
                   ? 1
                   : 0;
      ++ended;
    });
  }
  for (int i = 0; i < 60'000 && ended < kFetches; ++i) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(equal, kFetches);
}

[[nodiscard]] std::vector<Kind> kinds() {
  std::vector<Kind> all{{"ipc"}, {"tcp"}, {"ipc", true}, {"tcp", true}};
#ifndef __SANITIZE_THREAD__
  // inproc passes pointers between threads. The synchronisation is inside
  // libzmq, which is not instrumented.
  all.push_back({"inproc"});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Transports, HubLink, testing::ValuesIn(kinds()),
                         [](const auto& kind) {
                           return kind.param.name +
                                  (kind.param.has_keys ? "WithKeys" : "");
                         });

}  // namespace
}  // namespace troupe::net
