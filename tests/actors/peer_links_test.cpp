// Values that go from worker's process to worker's process.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/remote/link_values.h"
#include "actors/wire/codec.h"
#include "tests/actors/linked_company.h"
#include "tests/actors/observed_job.h"

namespace troupe::actors {
namespace {

using samplers::MethodKind;
using Peers = LinksOptions::Peers;

/// Five samples, cut into two parts: boundaries travel between two processes.
/// Neither computes before both are there.
struct TwoParts {
  explicit TwoParts(MethodKind kind = MethodKind::pipeline)
      : job({.kind = kind, .num_segments = 2}) {
    job.spec.workers = cpu_workers(2);
    job.evaluator.before_forward = [this](ExecContext&) {
      for (int up = num_up; up < 2; up = num_up) {
        num_up.wait(up);
      }
    };
  }
  LinksResult run(LinksOptions options = {}) {
    options.on_worker_up = [this] {
      ++num_up;
      num_up.notify_all();
    };
    LinksResult result = run_over_links(job.spec, options);
    EXPECT_FALSE(result.job.failure) << result.job.failure->message;
    return result;
  }

  ObservedJob job;
  std::atomic<int> num_up = 0;
};

LinksOptions with_peers(Peers first, Peers second) {
  LinksOptions options;
  options.peers = [=](std::size_t worker) {
    return worker == 0 ? first : second;
  };
  return options;
}

/// Bytes sent and received, as the workers' processes report them.
Process total(const LinksResult& result) {
  Process sum;
  for (const Process& process : result.processes) {
    EXPECT_GT(process.bytes_received, 0U) << process.process;
    sum.bytes_sent += process.bytes_sent;
    sum.bytes_received += process.bytes_received;
  }
  return sum;
}

TEST(PeerLinks, CarryBoundariesPastTheCoordinator) {
  for (const MethodKind kind : {MethodKind::pipeline, MethodKind::stale}) {
    TwoParts direct(kind);
    const LinksResult straight = direct.run();
    EXPECT_EQ(straight.processes.size(), 2U);
    EXPECT_EQ(straight.bytes_relayed, 0U);
    EXPECT_GE(total(straight).bytes_sent, total(straight).bytes_received);
    TwoParts relayed(kind);
    const LinksResult around =
        relayed.run(with_peers(Peers::neither, Peers::neither));
    EXPECT_EQ(around.processes.size(), 2U);
    EXPECT_GE(around.bytes_relayed, total(around).bytes_received);
    expect_same(relayed.job.seen.latents, direct.job.seen.latents,
                std::string(kind->name));
  }
}

TEST(PeerLinks, AreMadeByWhoCanDial) {
  const auto expected = sequential();
  for (const auto& [first, second] : {std::pair{Peers::both, Peers::dials},
                                      {Peers::dials, Peers::dials},
                                      {Peers::both, Peers::neither}}) {
    TwoParts two;
    const LinksResult result = two.run(with_peers(first, second));
    expect_same(expected, two.job.seen.latents, "peers");
    if (first == second || second == Peers::neither) {
      EXPECT_GT(result.bytes_relayed, 0U) << "there is no link";
    }
  }
}

/// Its questions to other workers' processes come back as a test says: the
/// coordinator's is dialled first.
class Meddler final : public HubBefore {
 public:
  using Meddle = std::function<void(net::Hub& hub, net::PeerId peer, int count,
                                    int holder, net::FetchTaker& taker)>;
  Meddler(std::unique_ptr<net::Hub> hub, Meddle meddle)
      : HubBefore(std::move(hub)), meddle_(std::move(meddle)) {}

  net::PeerId dial(const std::string& endpoint,
                   net::DialOptions options) override {
    const net::PeerId peer = HubBefore::dial(endpoint, std::move(options));
    const std::lock_guard lock(mutex_);
    if (!coordinator_) {
      coordinator_ = peer;
    }
    return peer;
  }
  void fetch(net::PeerId peer, std::string key, net::FetchOptions options,
             net::FetchTaker taker) override {
    std::optional<int> count;
    {
      const std::lock_guard lock(mutex_);
      if (peer != coordinator_) {
        count = count_++;
      }
    }
    const ValueKey asked = wire::decode_key(net::bytes_of(key));
    const auto* const value = std::get_if<RunValueKey>(&asked);
    if (count && value != nullptr) {
      meddle_(*this, peer, *count, value->holder, taker);
    }
    HubBefore::fetch(peer, std::move(key), options, std::move(taker));
  }

 private:
  Meddle meddle_;
  std::mutex mutex_;
  std::optional<net::PeerId> coordinator_;
  int count_ = 0;
};

LinksOptions::Wrap meddle(Meddler::Meddle how) {
  return [how = std::move(how)](std::unique_ptr<net::Hub> hub) {
    return std::make_unique<Meddler>(std::move(hub), how);
  };
}

/// What was found comes with another hash.
void damage(net::FetchTaker& taker) {
  taker = [taker = std::move(taker)](net::Fetched fetched) {
    if (fetched.status == net::FetchStatus::found) {
      fetched = {net::FetchStatus::corrupt, {}, "other bytes"};
    }
    taker(std::move(fetched));
  };
}

TEST(PeerLinks, MayBreakWhileValuesTravel) {
  const auto expected = sequential();
  std::atomic<int> cuts = 0;
  LinksOptions options;
  options.wrap_worker = meddle([&cuts](net::Hub& hub, net::PeerId peer,
                                       int count, int, net::FetchTaker&) {
    if (count == 3) {
      ++cuts;
      hub.leave(peer, "cut by a test");
    }
  });
  TwoParts two;
  const LinksResult result = two.run(options);
  EXPECT_GE(cuts, 1);
  EXPECT_GT(result.bytes_relayed, 0U);
  EXPECT_EQ(result.job.recoveries, 0) << "no task failed for it";
  expect_same(expected, two.job.seen.latents, "cut links");
}

/// Why each process that was dropped is no more, by number.
std::map<int, std::string> dropped(const LinksResult& result) {
  std::map<int, std::string> gone;
  for (const Process& process : result.processes) {
    if (process.has_left()) {
      gone[process.process] = process.cause;
    }
  }
  return gone;
}

TEST(PeerLinks, EndWithAProcessThatGivesOthersDamagedValues) {
  const auto expected = sequential();
  for (const int culprit : {1, 2}) {
    LinksOptions options;
    options.wrap_worker = meddle([culprit](net::Hub&, net::PeerId, int,
                                           int holder, net::FetchTaker& taker) {
      if (holder == culprit) {
        damage(taker);
      }
    });
    TwoParts two;
    const LinksResult result = two.run(options);
    EXPECT_GT(result.bytes_relayed, 0U) << "the value was fetched again";
    const auto gone = dropped(result);
    ASSERT_EQ(gone.size(), 1U);
    ASSERT_TRUE(gone.contains(culprit));
    EXPECT_NE(gone.at(culprit).find(
                  "a value of process " + std::to_string(culprit) +
                  " came damaged to process " + std::to_string(3 - culprit)),
              std::string::npos)
        << gone.at(culprit);
    expect_same(expected, two.job.seen.latents, "damaged values");
  }
}

TEST(PeerLinks, EndWithOneOfTwoProcessesThatBlameEachOther) {
  const auto expected = sequential();
  LinksOptions options;
  options.wrap_worker = meddle([](net::Hub&, net::PeerId, int, int,
                                  net::FetchTaker& taker) { damage(taker); });
  TwoParts two;
  const LinksResult result = two.run(options);
  EXPECT_EQ(dropped(result).size(), 1U);
  expect_same(expected, two.job.seen.latents, "damaged values");
}

TEST(PeerLinks, EndWithAProcessThatGivesTheCoordinatorDamagedValues) {
  const auto expected = sequential();
  std::atomic<bool> is_done = false;
  LinksOptions options;
  options.wrap_coordinator = meddle(
      [&is_done](net::Hub&, net::PeerId, int, int, net::FetchTaker& taker) {
        if (!is_done.exchange(true)) {
          damage(taker);
        }
      });
  ObservedJob job({.kind = MethodKind::batch});
  job.spec.workers = cpu_workers(2);
  const LinksResult result = run_over_links(job.spec, options);
  EXPECT_FALSE(result.job.failure) << result.job.failure->message;
  const auto gone = dropped(result);
  ASSERT_EQ(gone.size(), 1U);
  EXPECT_NE(gone.begin()->second.find("came damaged"), std::string::npos)
      << gone.begin()->second;
  expect_same(expected, job.seen.latents, "a process that was dropped");
}

/// Passes questions to the coordinator's process on, and changes those to other
/// processes, as a test says.
class AsksInVain final : public HubBefore {
 public:
  using Change = std::function<void(RunValueKey& key)>;
  AsksInVain(std::unique_ptr<net::Hub> hub, Change change)
      : HubBefore(std::move(hub)), change_(std::move(change)) {}

  net::PeerId dial(const std::string& endpoint,
                   net::DialOptions options) override {
    const net::PeerId peer = HubBefore::dial(endpoint, std::move(options));
    net::PeerId none = 0;
    (void)coordinator_.compare_exchange_strong(none, peer);
    return peer;
  }
  void fetch(net::PeerId peer, std::string key, net::FetchOptions options,
             net::FetchTaker taker) override {
    ValueKey asked = wire::decode_key(net::bytes_of(key));
    auto* const value = std::get_if<RunValueKey>(&asked);
    if (peer != coordinator_ && value != nullptr) {
      change_(*value);
      key = wire::encode(asked);
    }
    HubBefore::fetch(peer, std::move(key), options, std::move(taker));
  }

 private:
  std::atomic<net::PeerId> coordinator_ = 0;
  Change change_;
};

LinksOptions::Wrap asking_in_vain(AsksInVain::Change change) {
  return [change = std::move(change)](std::unique_ptr<net::Hub> hub) {
    return std::make_unique<AsksInVain>(std::move(hub), change);
  };
}

TEST(PeerLinks, AreNotWaitedForWhenAHolderNeverAnswers) {
  const auto expected = sequential();
  LinksOptions options;
  options.silence = std::chrono::seconds(1);
  // Values that are never made: the processes live, and never answer.
  options.wrap_worker =
      asking_in_vain([](RunValueKey& key) { key.name.slot += 1U << 20U; });
  TwoParts two;
  const LinksResult result = two.run(options);
  EXPECT_GT(result.bytes_relayed, 0U);
  EXPECT_EQ(result.job.recoveries, 0) << "no task failed for it";
  expect_same(expected, two.job.seen.latents, "holders that never answer");
}

TEST(PeerLinks, GiveNoValueOfAnotherJob) {
  const auto expected = sequential();
  std::atomic<int> left = 2;
  LinksOptions options;
  options.wrap_worker = asking_in_vain(
      [&left](RunValueKey& key) { key.job += --left < 0 ? 0 : 1; });
  TwoParts two;
  const LinksResult result = two.run(options);
  EXPECT_LT(left, 0);
  EXPECT_EQ(result.bytes_relayed, 0U) << "the holder has answered";
  expect_same(expected, two.job.seen.latents, "values of another job");
}

/// Leaves the first questions that it is asked without an answer.
class AnswersLate final : public HubBefore {
 public:
  AnswersLate(std::unique_ptr<net::Hub> hub, std::atomic<int>& ignored)
      : HubBefore(std::move(hub)), ignored_(ignored) {}

  void give(net::WantId want, net::Value value) override {
    if (--ignored_ < 0) {
      HubBefore::give(want, std::move(value));
    }
  }

 private:
  std::atomic<int>& ignored_;
};

TEST(PeerLinks, SendASampleBackWhoseHolderNeverAnswers) {
  const auto expected = sequential();
  std::atomic<int> ignored = 2;
  LinksOptions options = with_peers(Peers::neither, Peers::neither);
  options.silence = std::chrono::seconds(1);
  options.wrap_worker = [&ignored](std::unique_ptr<net::Hub> hub) {
    return std::make_unique<AnswersLate>(std::move(hub), ignored);
  };
  TwoParts two;
  const LinksResult result = two.run(options);
  EXPECT_LT(ignored, 0);
  EXPECT_GE(result.job.recoveries, 1);
  expect_same(expected, two.job.seen.latents, "answers that never came");
}

/// A peer that dials a worker's process.
class Stranger final : public net::LinkHandler {
 public:
  void on_greeting(net::PeerId, const net::Greeting&) override {}
  void on_up(net::PeerId, const net::Greeting&) override { end("let in"); }
  void on_record(net::PeerId, std::span<const std::byte>) override {}
  void on_room(net::PeerId) override {}
  void on_wanted(net::PeerId, net::WantId, std::string_view) override {}
  void on_lost(net::PeerId, const net::Loss& loss) override { end(loss.what); }

  /// How it ended.
  std::string wait() { return end_.get_future().get(); }

 private:
  void end(const std::string& how) { end_.set_value(how); }
  std::promise<std::string> end_;
};

TEST(PeerLinks, AreForProcessesOfTheJobOnly) {
  const std::unique_ptr<net::Switchboard> board = net::make_switchboard();
  const auto make_hub = [&board](net::HubOptions options,
                                 net::LinkHandler& handler) {
    return board->make_hub(std::move(options), handler);
  };
  CompanyListener listener({.version = "test",
                            .hub = {.role = "coordinator"},
                            .endpoints = {"inproc://job"},
                            .offer = {},
                            .make_hub = make_hub});
  CompanyMember member({.version = "test",
                        .name = "test",
                        .hub = {.role = "worker"},
                        .endpoint = "inproc://job",
                        .peers = PeerSpec{.bind = "inproc://member"},
                        .make_hub = make_hub});
  ASSERT_TRUE(member.wait_for_offer({}));
  for (const std::string& record :
       {std::string("no greeting at all"), wire::encode(PeerGreeting{2, ""}),
        wire::encode(PeerGreeting{2, "a guess"})}) {
    Stranger stranger;
    const auto hub = board->make_hub({.role = "worker"}, stranger);
    (void)hub->dial("inproc://member",
                    {.record = record, .deadline = std::chrono::minutes(1)});
    EXPECT_NE(stranger.wait(), "let in");
  }
}

}  // namespace
}  // namespace troupe::actors
