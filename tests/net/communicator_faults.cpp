// Ranks that die, hang or are slow at a drawn byte (over tcp) or message
// (within a process): the others fail by the deadline and name them, and go on
// in a new group.

#include <gmock/gmock.h>

#include <cstdlib>
#include <latch>
#include <random>

#include "net/socket_communicator.h"
#include "tests/net/communicator_world.h"
#include "tests/net/tcp_relay.h"

namespace troupe::net {
namespace {

using Bytes = std::vector<std::byte>;
using Clock = std::chrono::steady_clock;

constexpr int kSteps = 6;

struct Trial {
  int ranks = 0;
  int victim = 0;
  std::shared_ptr<RelayFault> fault;
  std::vector<std::size_t> sizes;  ///< of a message in each step
  int step = 0;                    ///< of the fault, within a process
  Duration patience{};             ///< of an exchange
};

/// Ranks over tcp; all that the victim says and hears goes through relays.
class RelayedRanks final : public CommunicatorWorld {
 public:
  explicit RelayedRanks(const Trial& trial) : trial_(trial) {
    for (int rank = 0; rank < trial.ranks; ++rank) {
      listeners_.push_back(listen_as_rank("tcp://127.0.0.1:*"));
      relays_.push_back(std::make_unique<TcpRelay>(
          port_of(listeners_.back()->endpoint()), trial.fault));
    }
  }
  std::unique_ptr<Communicator> make(int rank) override {
    std::vector<RankAddress> addresses;
    for (int other = 0; other < trial_.ranks; ++other) {
      const auto at = static_cast<std::size_t>(other);
      const bool is_relayed = rank == trial_.victim || other == trial_.victim;
      addresses.push_back(
          {is_relayed ? relays_[at]->endpoint() : listeners_[at]->endpoint()});
    }
    return listeners_[static_cast<std::size_t>(rank)]->join(
        {rank, addresses, 1});
  }

 private:
  const Trial& trial_;
  std::vector<std::unique_ptr<RankListener>> listeners_;
  std::vector<std::unique_ptr<TcpRelay>> relays_;
};

/// What a rank sends to another in a step.
Bytes message(int from, int to, int step, std::size_t size) {
  std::mt19937 engine(static_cast<unsigned>((from * 100 + to) * 100 + step));
  Bytes bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(engine());
  }
  return bytes;
}

/// Every rank gives every other one bytes, and checks those that come.
void give_all(Communicator& it, const Communicator::Call& call, int step,
              std::size_t size) {
  std::vector<Bytes> kept;
  std::vector<Bytes> got;
  for (int other = 0; other < it.world_size(); ++other) {
    kept.push_back(message(it.rank(), other, step, size));
    got.emplace_back(size);
  }
  const std::vector<std::span<const std::byte>> to(kept.begin(), kept.end());
  const std::vector<std::span<std::byte>> from(got.begin(), got.end());
  it.all_to_all(call, to, from);
  for (int other = 0; other < it.world_size(); ++other) {
    EXPECT_TRUE(got[static_cast<std::size_t>(other)] ==
                message(other, it.rank(), step, size));
  }
}

constexpr int kOrdinary = 12;

int num_trials() {
  const char* const wanted = std::getenv("TROUPE_COMMUNICATOR_FAULTS");
  return wanted == nullptr ? kOrdinary : std::atoi(wanted);
}

/// How long a rank waits for one that may hang. A run of many trials is beside
/// no other test; another one may be slow, and a sanitizer's is.
std::chrono::milliseconds patience_with_hangs() {
  return std::chrono::milliseconds(num_trials() > kOrdinary ? 400 : 2000);
}

Trial drawn(unsigned seed, RankFault kind) {
  std::mt19937 engine(seed);
  Trial trial;
  trial.ranks = static_cast<int>(2 + engine() % 4);
  trial.victim =
      static_cast<int>(engine() % static_cast<unsigned>(trial.ranks));
  std::int64_t sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    trial.sizes.push_back(engine() % 8 == 0 ? engine() % 600'000
                                            : 1 + engine() % 20'000);
    sum += static_cast<std::int64_t>(trial.sizes.back());
  }
  // Both ways, with every other rank.
  sum *= 2 * (trial.ranks - 1);
  trial.step = static_cast<int>(engine() % kSteps);
  trial.fault = std::make_shared<RelayFault>(
      kind, 1 + static_cast<std::int64_t>(engine()) % sum);
  trial.patience = kind == RankFault::hangs ? patience_with_hangs()
                                            : std::chrono::minutes(10);
  return trial;
}

/// What befalls the victim itself, within a process. Returns whether it goes
/// on.
bool survives(TestRank& self, const Trial& trial, std::latch& others_done) {
  trial.fault->come();
  switch (trial.fault->kind) {
    case RankFault::dies:
      if (trial.step % 2 == 0) {
        self.communicator->abort("the test says so");
      }
      self.communicator.reset();
      return false;
    case RankFault::hangs:
      others_done.wait();
      return false;
    case RankFault::is_slow:
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return true;
  }
  return true;
}

/// Runs a trial. Returns the time from the fault until the last of the others
/// knew, 0 where nobody had to.
Duration run(const Trial& trial, const CommunicatorKind& kind) {
  const bool is_inproc = kind.name == inproc_kind().name;
  std::latch all_there(trial.ranks);
  std::latch others_done(trial.ranks - 1);
  std::atomic<Clock::time_point> last_known = Clock::time_point{};
  const auto errors = run_ranks(kind, trial.ranks, [&](TestRank& self) {
    // A rank that was never heard of is missed at the deadline alone.
    self.communicator->barrier({kSteps, patience()});
    trial.fault->counts = true;
    all_there.arrive_and_wait();
    try {
      for (int step = 0; step < kSteps; ++step) {
        if (is_inproc && self.rank() == trial.victim && step == trial.step &&
            !survives(self, trial, others_done)) {
          return;
        }
        const auto tag = static_cast<Communicator::Tag>(step);
        give_all(*self.communicator, {tag, Clock::now() + trial.patience}, step,
                 trial.sizes[static_cast<std::size_t>(step)]);
      }
    } catch (const Error&) {
      if (self.rank() != trial.victim) {
        last_known = Clock::now();
        others_done.count_down();
      }
      throw;
    }
    if (self.rank() != trial.victim) {
      others_done.count_down();
    }
  });
  if (trial.fault->kind == RankFault::is_slow) {
    expect_no_errors(errors);
    return {};
  }
  int num_failed = 0;
  for (int rank = 0; rank < trial.ranks; ++rank) {
    const auto& error = errors[static_cast<std::size_t>(rank)];
    if (rank != trial.victim && error) {
      ++num_failed;
      EXPECT_EQ(error->code(), Errc::unreachable) << error->what();
      EXPECT_THAT(error->message(),
                  testing::HasSubstr("rank " + std::to_string(trial.victim)));
    }
  }
  // Behind the last exchange of all nobody has to notice.
  return num_failed == 0 ? Duration{}
                         : last_known.load() - trial.fault->at.load();
}

class CommunicatorFaults : public testing::TestWithParam<bool> {};

TEST_P(CommunicatorFaults, AreNamedByTheOthersWhichGoOn) {
  const bool is_inproc = GetParam();
  constexpr int kKinds = 3;
  TrialTimes until_noticed[kKinds];
  const int trials = num_trials();
  for (int seed = 0; seed < trials; ++seed) {
    const auto kind = static_cast<RankFault>(seed % kKinds);
    const Trial trial = drawn(static_cast<unsigned>(seed), kind);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", rank " +
                 std::to_string(trial.victim) + " of " +
                 std::to_string(trial.ranks) + " " + name_of(kind));
    const CommunicatorKind relayed = {
        "relayed", [&](int) { return std::make_unique<RelayedRanks>(trial); }};
    const Duration took = run(trial, is_inproc ? inproc_kind() : relayed);
    EXPECT_TRUE(trial.fault->has_come) << "after the last byte";
    if (took > Duration{}) {
      until_noticed[seed % kKinds].add(took);
    }
    // Those that are left form a new group.
    Trial rest = trial;
    --rest.ranks;
    rest.victim = -1;
    const CommunicatorKind direct = {
        "direct", [&](int) { return std::make_unique<RelayedRanks>(rest); }};
    expect_no_errors(run_ranks(
        is_inproc ? inproc_kind() : direct, rest.ranks, [](TestRank& self) {
          give_all(*self.communicator, {1, patience()}, 0, 1000);
        }));
  }
  until_noticed[0].print("dies, until noticed");
  until_noticed[1].print("hangs, until noticed");
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorFaults, testing::Bool(),
                         [](const auto& kind) {
                           return kind.param ? "inproc" : "tcp";
                         });

}  // namespace
}  // namespace troupe::net
