#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <latch>

#include "tests/net/communicator_world.h"

namespace troupe::net {
namespace {

using Bytes = std::vector<std::byte>;
using Call = Communicator::Call;

/// `size` bytes that name their sender and receiver.
Bytes pattern(int from, int to, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(
        i * 7 + i / 251 + static_cast<std::size_t>(from * 31 + to * 113));
  }
  return bytes;
}

/// Uneven, some none.
std::size_t size_of_part(int from, int to) {
  return static_cast<std::size_t>((from * 5 + to * 3) % 4 * 1000 +
                                  (from + to) % 3);
}

class CommunicatorTest : public testing::TestWithParam<CommunicatorKind> {
 protected:
  [[nodiscard]] std::vector<std::optional<Error>> run(
      int ranks, const std::function<void(TestRank&)>& body) const {
    return run_ranks(GetParam(), ranks, body);
  }
};

/// All ranks, every second one from the last on, and one alone.
std::vector<std::vector<int>> groups_of(int ranks) {
  std::vector<std::vector<int>> groups(1);
  std::vector<int> some;
  for (int rank = ranks - 1; rank >= 0; rank -= 2) {
    some.push_back(rank);
  }
  groups.push_back(some);
  groups.push_back({ranks / 2});
  return groups;
}

std::vector<int> members_of_group(const std::vector<int>& group, int ranks) {
  std::vector<int> members = group;
  for (int rank = 0; group.empty() && rank < ranks; ++rank) {
    members.push_back(rank);
  }
  return members;
}

/// Runs `body` for 1 to 16 ranks, for each group and its members.
void for_each_group(const CommunicatorKind& kind,
                    const std::function<void(TestRank&, const Call&,
                                             const std::vector<int>&)>& body) {
  for (const int ranks : {1, 2, 3, 5, 16}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    expect_no_errors(run_ranks(kind, ranks, [&](TestRank& self) {
      Communicator::Tag tag = std::uint64_t{1} << 63U;
      for (const std::vector<int>& group : groups_of(ranks)) {
        const std::vector<int> members = members_of_group(group, ranks);
        ++tag;
        if (std::ranges::find(members, self.rank()) != members.end()) {
          body(self, {tag, patience(), group}, members);
        }
      }
    }));
  }
}

TEST_P(CommunicatorTest, KnowsItsRanks) {
  expect_no_errors(run(3, [](TestRank& self) {
    EXPECT_EQ(self.communicator->rank(), self.rank());
    EXPECT_EQ(self.communicator->world_size(), 3);
    EXPECT_NO_THROW(self.communicator->check());
    self.communicator->barrier({1, patience()});
  }));
}

TEST_P(CommunicatorTest, AllGather) {
  for_each_group(GetParam(), [](TestRank& self, const Call& call,
                                const std::vector<int>& members) {
    std::vector<std::unique_ptr<CommunicatorMemory>> memories;
    std::vector<std::span<std::byte>> parts;
    for (const int from : members) {
      memories.push_back(self.memory(size_of_part(from, 0)));
      parts.push_back(memories.back()->span());
    }
    const auto mine =
        self.memory(pattern(self.rank(), 0, size_of_part(self.rank(), 0)));
    self.communicator->all_gather(call, mine->span(), parts);
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(memories[i]->read(),
                pattern(members[i], 0, size_of_part(members[i], 0)));
    }
  });
}

TEST_P(CommunicatorTest, AllGatherInPlace) {
  expect_no_errors(run(4, [](TestRank& self) {
    const auto all = self.memory(Bytes(400, std::byte{0}));
    const auto part = [&](int rank) {
      return all->span().subspan(static_cast<std::size_t>(rank) * 100, 100);
    };
    Bytes bytes(400);
    const Bytes mine = pattern(self.rank(), 0, 100);
    std::ranges::copy(mine, bytes.begin() + self.rank() * 100);
    all->write(bytes);
    const std::vector<std::span<std::byte>> parts = {part(0), part(1), part(2),
                                                     part(3)};
    self.communicator->all_gather({7, patience()}, part(self.rank()), parts);
    const Bytes got = all->read();
    for (int from = 0; from < 4; ++from) {
      EXPECT_EQ(Bytes(got.begin() + from * 100, got.begin() + from * 100 + 100),
                pattern(from, 0, 100));
    }
  }));
}

TEST_P(CommunicatorTest, AllToAllOfUnevenParts) {
  for_each_group(GetParam(), [](TestRank& self, const Call& call,
                                const std::vector<int>& members) {
    std::vector<std::unique_ptr<CommunicatorMemory>> memories;
    std::vector<std::unique_ptr<CommunicatorMemory>> results;
    std::vector<std::span<const std::byte>> to;
    std::vector<std::span<std::byte>> from;
    for (const int other : members) {
      memories.push_back(self.memory(
          pattern(self.rank(), other, size_of_part(self.rank(), other))));
      to.push_back(memories.back()->span());
      results.push_back(self.memory(size_of_part(other, self.rank())));
      from.push_back(results.back()->span());
    }
    self.communicator->all_to_all(call, to, from);
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(results[i]->read(),
                pattern(members[i], self.rank(),
                        size_of_part(members[i], self.rank())));
    }
  });
}

TEST_P(CommunicatorTest, Broadcast) {
  for_each_group(GetParam(), [](TestRank& self, const Call& call,
                                const std::vector<int>& members) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{5000}}) {
      const int root = members[members.size() / 2];
      const auto bytes =
          self.memory(self.rank() == root ? pattern(root, 9, size)
                                          : Bytes(size, std::byte{0xee}));
      self.communicator->broadcast(call, root, bytes->span());
      EXPECT_EQ(bytes->read(), pattern(root, 9, size));
    }
  });
}

TEST_P(CommunicatorTest, RingExchange) {
  for_each_group(GetParam(), [](TestRank& self, const Call& call,
                                const std::vector<int>& members) {
    const auto own = static_cast<std::size_t>(
        std::ranges::find(members, self.rank()) - members.begin());
    const int next = members[(own + 1) % members.size()];
    const int previous = members[(own + members.size() - 1) % members.size()];
    const auto to_next = self.memory(
        pattern(self.rank(), next, size_of_part(self.rank(), next)));
    const auto from_previous = self.memory(size_of_part(previous, self.rank()));
    self.communicator->ring_exchange(call, to_next->span(),
                                     from_previous->span());
    EXPECT_EQ(
        from_previous->read(),
        pattern(previous, self.rank(), size_of_part(previous, self.rank())));
  });
}

/// Values whose sum depends on the order.
float term_of(int rank, std::size_t i) {
  return (i % 2 == 0 ? 1e8F : 1.0F) * static_cast<float>(rank % 3 - 1) +
         0.1F * static_cast<float>(i % 17) + 0.3F * static_cast<float>(rank);
}

TEST_P(CommunicatorTest, AllReduceSumsInTheOrderOfTheGroup) {
  for_each_group(GetParam(), [](TestRank& self, const Call& call,
                                const std::vector<int>& members) {
    // Fewer values than members, too.
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{2}, std::size_t{1001}}) {
      std::vector<float> values;
      std::vector<float> sums;
      for (std::size_t i = 0; i < count; ++i) {
        values.push_back(term_of(self.rank(), i));
        sums.push_back(term_of(members[0], i));
        for (std::size_t m = 1; m < members.size(); ++m) {
          sums.back() += term_of(members[m], i);
        }
      }
      const auto memory = self.memory(std::as_bytes(std::span(values)));
      self.communicator->all_reduce(
          call, {reinterpret_cast<float*>(memory->span().data()), count});
      const auto want = std::as_bytes(std::span(sums));
      EXPECT_EQ(memory->read(), Bytes(want.begin(), want.end()));
    }
  });
}

TEST_P(CommunicatorTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> come = 0;
  expect_no_errors(run(8, [&](TestRank& self) {
    for (int round = 1; round <= 5; ++round) {
      ++come;
      self.communicator->barrier(
          {static_cast<Communicator::Tag>(round), patience()});
      EXPECT_GE(come, round * 8);
    }
  }));
}

TEST_P(CommunicatorTest, MessagesOfAPairKeepTheirOrder) {
  expect_no_errors(run(2, [](TestRank& self) {
    Communicator& it = *self.communicator;
    for (int i = 0; i < 50; ++i) {
      const Call call{static_cast<Communicator::Tag>(i), patience()};
      const auto size = static_cast<std::size_t>(i) * 37 % 200;
      if (self.rank() == 0) {
        it.send(call, 1, self.memory(pattern(0, i, size))->span());
      } else {
        const auto got = self.memory(size);
        it.receive(call, 0, got->span());
        EXPECT_EQ(got->read(), pattern(0, i, size));
      }
    }
  }));
}

TEST_P(CommunicatorTest, SeveralMessagesOfAPairInOneExchange) {
  expect_no_errors(run(3, [](TestRank& self) {
    std::vector<std::unique_ptr<CommunicatorMemory>> memories;
    std::vector<Communicator::Send> sends;
    std::vector<Communicator::Receive> receives;
    std::vector<Bytes> expected;
    for (int turn = 0; turn < 4; ++turn) {
      for (int other = 2; other >= 0; --other) {
        const auto size = [&](int from, int to) {
          return static_cast<std::size_t>(from * 1000 + to * 100 + turn * 7);
        };
        memories.push_back(self.memory(
            pattern(self.rank() + turn, other, size(self.rank(), other))));
        sends.push_back({other, memories.back()->span()});
        memories.push_back(self.memory(size(other, self.rank())));
        receives.push_back({other, memories.back()->span()});
        expected.push_back(
            pattern(other + turn, self.rank(), size(other, self.rank())));
      }
    }
    self.communicator->exchange({5, patience()}, sends, receives);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(memories[2 * i + 1]->read(), expected[i]);
    }
  }));
}

TEST_P(CommunicatorTest, LargeMessagesBothWays) {
  constexpr std::size_t kSize = (std::size_t{9} << 20U) + 13;
  expect_no_errors(run(2, [](TestRank& self) {
    const int other = 1 - self.rank();
    const auto mine = self.memory(pattern(self.rank(), other, kSize));
    const auto got = self.memory(kSize);
    const Communicator::Send send{other, mine->span()};
    const Communicator::Receive receive{other, got->span()};
    self.communicator->exchange({1, patience()}, {&send, 1}, {&receive, 1});
    EXPECT_TRUE(got->read() == pattern(other, self.rank(), kSize));
  }));
}

TEST_P(CommunicatorTest, ALateRankIsWaitedFor) {
  std::atomic<bool> others_wait = false;
  expect_no_errors(run(3, [&](TestRank& self) {
    if (self.rank() == 1) {
      while (!others_wait) {
        std::this_thread::yield();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
    }
    others_wait = true;
    self.communicator->barrier({1, patience()});
  }));
}

TEST_P(CommunicatorTest, GroupsDoNotWaitForOthers) {
  std::latch pairs_done(2);
  expect_no_errors(run(4, [&](TestRank& self) {
    // Ranks 2 and 3 come once 0 and 1 are through.
    const std::vector<int> own =
        self.rank() < 2 ? std::vector{0, 1} : std::vector{3, 2};
    if (self.rank() >= 2) {
      pairs_done.wait();
    }
    self.communicator->barrier({1, patience(), own});
    if (self.rank() < 2) {
      pairs_done.count_down();
    }
    self.communicator->barrier({2, patience()});
  }));
}

TEST_P(CommunicatorTest, NonsenseIsRefusedAndEndsNothing) {
  expect_no_errors(run(2, [](TestRank& self) {
    Communicator& it = *self.communicator;
    const auto memory = self.memory(8);
    const auto refused = [](const std::function<void()>& operation) {
      try {
        operation();
        ADD_FAILURE() << "not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument) << error.what();
      }
    };
    const std::vector<int> twice = {0, 1, 0};
    const std::vector<int> others = {1 - self.rank()};
    const std::vector<int> unknown = {0, 1, 2};
    refused([&] { it.send({1, patience()}, 2, memory->span()); });
    refused([&] { it.receive({1, patience()}, -1, memory->span()); });
    refused([&] { it.barrier({1, patience(), twice}); });
    refused([&] { it.barrier({1, patience(), others}); });
    refused([&] { it.barrier({1, patience(), unknown}); });
    refused([&] { it.broadcast({1, patience()}, 7, memory->span()); });
    refused([&] { it.all_gather({1, patience()}, memory->span(), {}); });
    refused([&] { it.send({1, patience()}, self.rank(), memory->span()); });
    it.barrier({1, patience()});
  }));
}

/// An operation in which a rank waits for the last rank.
struct Waiting {
  std::string name;
  std::function<void(Communicator&, const Call&, std::span<std::byte>)> wait;
};

std::vector<Waiting> waitings() {
  const auto last = [](Communicator& it) { return it.world_size() - 1; };
  return {
      {"receive",
       [=](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         it.receive(call, last(it), bytes);
       }},
      {"broadcast",
       [=](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         it.broadcast(call, last(it), bytes);
       }},
      {"all_gather",
       [](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         std::vector<std::span<std::byte>> parts;
         for (int rank = 0; rank < it.world_size(); ++rank) {
           parts.push_back(
               bytes.subspan(static_cast<std::size_t>(rank) * 8, 8));
         }
         it.all_gather(call, parts[static_cast<std::size_t>(it.rank())], parts);
       }},
      {"all_to_all",
       [](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         std::vector<std::span<const std::byte>> to;
         std::vector<std::span<std::byte>> from;
         for (int rank = 0; rank < it.world_size(); ++rank) {
           const auto at = static_cast<std::size_t>(rank) * 16;
           to.push_back(bytes.subspan(at, 8));
           from.push_back(bytes.subspan(at + 8, 8));
         }
         it.all_to_all(call, to, from);
       }},
      {"all_reduce",
       [](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         it.all_reduce(call, {reinterpret_cast<float*>(bytes.data()),
                              bytes.size() / sizeof(float)});
       }},
      {"ring_exchange",
       [](Communicator& it, const Call& call, std::span<std::byte> bytes) {
         it.ring_exchange(call, bytes.first(8), bytes.subspan(8, 8));
       }},
      {"barrier", [](Communicator& it, const Call& call,
                     std::span<std::byte>) { it.barrier(call); }},
  };
}

/// The first rank, which waits for the last one in each of them, has failed,
/// and everybody who failed is right about whom to blame.
void expect_blame(const std::vector<std::optional<Error>>& errors,
                  const std::string& culprit) {
  ASSERT_TRUE(errors[0]);
  for (std::size_t rank = 0; rank + 1 < errors.size(); ++rank) {
    if (errors[rank]) {
      EXPECT_EQ(errors[rank]->code(), Errc::unreachable)
          << errors[rank]->what();
      EXPECT_THAT(errors[rank]->message(), testing::HasSubstr(culprit));
    }
  }
}

TEST_P(CommunicatorTest, ARankThatNeverComesIsNamedAtTheDeadline) {
  for (const Waiting& waiting : waitings()) {
    SCOPED_TRACE(waiting.name);
    std::latch waited(2);
    const auto errors = run(3, [&](TestRank& self) {
      const auto memory = self.memory(Bytes(64, std::byte{0}));
      if (self.rank() == 2) {
        waited.wait();
        return;
      }
      const auto deadline =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
      try {
        waiting.wait(*self.communicator, {1, deadline}, memory->span());
      } catch (const Error&) {
        waited.count_down();
        throw;
      }
      waited.count_down();
    });
    expect_blame(errors, "rank 2");
    EXPECT_FALSE(errors[2]);
  }
}

/// How long a rank waits for one that has ended, where the kind does not tell.
TimePoint short_patience() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(1);
}

TEST_P(CommunicatorTest, ARankThatDiesEndsEveryOperation) {
  for (const Waiting& waiting : waitings()) {
    for (const bool aborts : {false, true}) {
      SCOPED_TRACE(waiting.name + (aborts ? ", abort" : ", destructor"));
      std::atomic<bool> is_ready = false;
      const auto errors = run(3, [&](TestRank& self) {
        self.communicator->barrier({1, patience()});
        const auto memory = self.memory(Bytes(64, std::byte{0}));
        if (self.rank() < 2) {
          is_ready = true;
          waiting.wait(*self.communicator, {2, short_patience()},
                       memory->span());
        } else {
          while (!is_ready) {
            std::this_thread::yield();
          }
          if (aborts) {
            self.communicator->abort("the test says so");
          }
        }
      });
      expect_blame(errors, "rank 2");
      EXPECT_FALSE(errors[2]);
    }
  }
}

TEST_P(CommunicatorTest, AnotherThreadEndsEveryOperation) {
  for (const Waiting& waiting : waitings()) {
    SCOPED_TRACE(waiting.name);
    std::latch is_over(1);
    const auto errors = run(2, [&](TestRank& self) {
      self.communicator->barrier({1, patience()});
      const auto memory = self.memory(Bytes(64, std::byte{0}));
      if (self.rank() == 1) {
        is_over.wait();
        return;
      }
      std::thread other([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        self.communicator->abort("the user left");
      });
      try {
        waiting.wait(*self.communicator, {2, patience()}, memory->span());
        ADD_FAILURE() << "not ended";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::interrupted) << error.what();
        EXPECT_THAT(error.what(), testing::HasSubstr("the user left"));
      }
      other.join();
      // And everything after it.
      EXPECT_THROW(self.communicator->check(), Error);
      EXPECT_THROW(self.communicator->exchange({3, patience()}, {}, {}), Error);
      is_over.count_down();
    });
    expect_no_errors(errors);
  }
}

TEST_P(CommunicatorTest, AnotherTagIsADisagreement) {
  const auto errors = run(2, [&](TestRank& self) {
    const auto memory = self.memory(Bytes(64, std::byte{0}));
    const auto tag = static_cast<Communicator::Tag>(self.rank() + 4);
    self.communicator->ring_exchange({tag, short_patience()},
                                     memory->span().first(8),
                                     memory->span().subspan(8, 8));
  });
  // One sees it first; the other may learn of its end.
  int num_disagreements = 0;
  for (const std::size_t rank : {0, 1}) {
    ASSERT_TRUE(errors[rank]);
    EXPECT_THAT(errors[rank]->message(),
                testing::HasSubstr("rank " + std::to_string(1 - rank)));
    num_disagreements += errors[rank]->code() == Errc::internal ? 1 : 0;
  }
  EXPECT_GE(num_disagreements, 1);
}

TEST_P(CommunicatorTest, AnotherSizeIsAnError) {
  for (const std::size_t size : {7, 9}) {
    const auto errors = run(2, [&](TestRank& self) {
      const auto memory = self.memory(Bytes(64, std::byte{0}));
      if (self.rank() == 0) {
        self.communicator->receive({1, short_patience()}, 1,
                                   memory->span().first(8));
      } else {
        self.communicator->send({1, short_patience()}, 0,
                                memory->span().first(size));
      }
    });
    ASSERT_TRUE(errors[0]);
    EXPECT_THAT(errors[0]->message(), testing::HasSubstr("rank 1"));
  }
}

TEST_P(CommunicatorTest, RanksThatAreDoneMayLeave) {
  expect_no_errors(run(3, [](TestRank& self) {
    const std::vector<int> others = {1, 2};
    self.communicator->barrier({1, patience()});
    if (self.rank() > 0) {
      for (Communicator::Tag tag = 2; tag < 20; ++tag) {
        self.communicator->barrier({tag, patience(), others});
      }
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CommunicatorTest,
                         testing::ValuesIn(communicator_kinds()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace troupe::net
