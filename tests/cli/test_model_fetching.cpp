// A model is fetched from all processes of a job that have files of it.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/cli/cache_file.h"
#include "actors/cli/model_cache.h"
#include "kernels/core/error.h"
#include "tests/cli/some_model.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using net::FetchStatus;

/// Of the chunks that a giver has.
bool is_list(const ValueKey& key) {
  return std::holds_alternative<ModelChunksKey>(key);
}

/// Answers at once, as a test says.
class PlayedHosts final : public ModelHosts {
 public:
  /// What a giver says to a question; nothing: what is right.
  using Giver = std::function<std::optional<net::Fetched>(const ValueKey& key)>;

  explicit PlayedHosts(const SomeModel& model) : model_(model) {}

  [[nodiscard]] int process() const override { return 3; }
  [[nodiscard]] std::vector<int> model_givers() const override {
    std::vector<int> processes;
    for (const auto& [process, answer] : givers) {
      processes.push_back(process);
    }
    return processes;
  }
  void ask(int process, const ValueKey& key, const net::FetchOptions&,
           const net::FetchTaker& taker) override {
    std::optional<net::Fetched> said;
    if (process != kHomeProcess) {
      said = givers.at(process)(key);
    }
    const auto* const chunk = std::get_if<ModelChunkKey>(&key);
    const bool is_chunk = chunk != nullptr;
    asked[process] += is_chunk ? 1U : 0U;
    if (!said) {
      std::string right = is_chunk       ? model_.chunk(*chunk)
                          : is_list(key) ? all()
                                         : encode(model_.files());
      given[process] += is_chunk ? right.size() : 0U;
      said = {FetchStatus::found, {net::share(std::move(right))}, {}};
    }
    taker(std::move(*said));
  }
  void give_model(std::shared_ptr<ModelGiver> its) override {
    giver = std::move(its);
  }

  std::map<int, Giver> givers;
  std::map<int, std::size_t> asked;    ///< for chunks
  std::map<int, std::uint64_t> given;  ///< bytes of chunks
  std::shared_ptr<ModelGiver> giver;

 private:
  [[nodiscard]] std::string all() const {
    return std::string(model_.num_chunks(), '1');
  }

  const SomeModel& model_;
};

std::optional<net::Fetched> as_asked(const ValueKey& /*key*/) { return {}; }

/// Has all chunks, as it says, and gives none.
PlayedHosts::Giver only_says(FetchStatus status) {
  return [status](const ValueKey& key) -> std::optional<net::Fetched> {
    if (is_list(key)) {
      return std::nullopt;
    }
    return net::Fetched{status, {}, "a test has it so"};
  };
}

class FetchingFromSeveral : public testing::Test {
 protected:
  fs::path fetch(ModelHosts& hosts, FetchFrom from = FetchFrom::anyone) {
    return ModelCache(cache_.path())
        .fetch(record_, hosts, from,
               {.progress = [this](const FetchProgress& now) { told_ = now; },
                .check = check_,
                .waits = waits_});
  }
  /// The copy is right, with so many bytes of it from workers.
  void expect_whole(const PlayedHosts& hosts, const fs::path& copy) {
    model_.expect_copy_at(copy);
    std::uint64_t from_workers = 0;
    for (const auto& [process, bytes] : hosts.given) {
      from_workers += process == kHomeProcess ? 0 : bytes;
    }
    EXPECT_EQ(told_.from_workers, from_workers);
    EXPECT_EQ(told_.total, ModelChunks(model_.files()).num_bytes());
    EXPECT_EQ(told_.there, told_.total);
  }

  SomeModel model_{20};
  ModelRecord record_;
  FetchProgress told_;
  std::function<void()> check_ = [] {};
  std::function<void()> waits_ = [] { ADD_FAILURE() << "it is not locked"; };
  TemporaryFolder cache_;
};

/// Two locks of one process keep each other out as those of two do.
TEST_F(FetchingFromSeveral, WaitsForAnotherProcessAndSaysSo) {
  PlayedHosts hosts(model_);
  const fs::path whole = fetch(hosts);
  const auto never = [] { return false; };
  std::optional<CacheLock> other(std::in_place, whole.string() + ".lock",
                                 never);
  int calls = 0;
  waits_ = [&] {
    ++calls;
    other.reset();
  };
  EXPECT_EQ(fetch(hosts), whole);
  EXPECT_EQ(calls, 1);
}

TEST_F(FetchingFromSeveral, TakesFromEachAndSparesTheFirstProcess) {
  PlayedHosts hosts(model_);
  hosts.givers = {{1, as_asked}, {2, as_asked}};
  expect_whole(hosts, fetch(hosts));
  EXPECT_GE(hosts.asked[1], 8U);
  EXPECT_GE(hosts.asked[2], 8U);
  EXPECT_LE(hosts.asked[kHomeProcess], 5U);
  EXPECT_EQ(hosts.asked[0] + hosts.asked[1] + hosts.asked[2],
            model_.num_chunks())
      << "nothing is fetched twice";
  EXPECT_TRUE(hosts.giver) << "and it gives, too";
}

TEST_F(FetchingFromSeveral, IsFromTheFirstProcessAloneIfToldSo) {
  PlayedHosts hosts(model_);
  hosts.givers = {{1, as_asked}};
  expect_whole(hosts, fetch(hosts, FetchFrom::first_process));
  EXPECT_EQ(hosts.asked[1], 0U);
  EXPECT_EQ(told_.from_workers, 0U);
  EXPECT_FALSE(hosts.giver);
}

TEST_F(FetchingFromSeveral, GoesOnWithoutGiversThatDoNotGive) {
  for (const FetchStatus status :
       {FetchStatus::gone, FetchStatus::lost, FetchStatus::late,
        FetchStatus::corrupt, FetchStatus::too_large}) {
    PlayedHosts hosts(model_);
    hosts.givers = {{1, only_says(status)}};
    const fs::path copy = fetch(hosts);
    expect_whole(hosts, copy);
    EXPECT_EQ(hosts.asked[1], 4U) << "and then no more for a while";
    EXPECT_EQ(hosts.asked[kHomeProcess], model_.num_chunks());
    fs::remove_all(copy);
  }
}

TEST_F(FetchingFromSeveral, GoesOnWhenAGiverDiesInTheMiddle) {
  PlayedHosts hosts(model_);
  std::size_t left = 7;
  hosts.givers[1] = [&](const ValueKey& key) -> std::optional<net::Fetched> {
    if (is_list(key) || left > 0) {
      left -= is_list(key) ? 0 : 1;
      return std::nullopt;
    }
    return net::Fetched{FetchStatus::lost, {}, "it died"};
  };
  expect_whole(hosts, fetch(hosts));
  EXPECT_EQ(left, 0U);
  EXPECT_GE(told_.from_workers, 5 * kMiB);
}

TEST_F(FetchingFromSeveral, TakesNothingOfAnotherSize) {
  for (const std::string& wrong : {std::string(5, 'x'), std::string()}) {
    PlayedHosts hosts(model_);
    hosts.givers = {
        {1,
         [&](const ValueKey& key) -> std::optional<net::Fetched> {
           if (is_list(key)) {
             return std::nullopt;
           }
           return net::Fetched{FetchStatus::found, {net::share(wrong)}, {}};
         }},
        {2, as_asked}};
    const fs::path copy = fetch(hosts);
    expect_whole(hosts, copy);
    EXPECT_LE(hosts.asked[1], 4U);
    EXPECT_GE(hosts.asked[2], 8U);
    fs::remove_all(copy);
  }
}

TEST_F(FetchingFromSeveral, TakesNothingOfWhoHasOtherChunks) {
  PlayedHosts hosts(model_);
  hosts.givers = {
      {1, [](const ValueKey&) -> std::optional<net::Fetched> {
         return net::Fetched{FetchStatus::found, {net::share("11111")}, {}};
       }}};
  expect_whole(hosts, fetch(hosts));
  EXPECT_EQ(hosts.asked[1], 0U);
}

TEST_F(FetchingFromSeveral, GoesOnWithWhatIsThere) {
  PlayedHosts hosts(model_);
  hosts.givers = {{1, as_asked}};
  std::size_t asked = 0;
  int looks = 0;
  check_ = [&] {
    if (++looks == 4) {
      asked = hosts.asked[kHomeProcess] + hosts.asked[1];
      throw Error(Errc::interrupted, "test", "stopped");
    }
  };
  EXPECT_THROW((void)fetch(hosts), Error);
  ASSERT_GT(asked, 4U);
  ASSERT_LT(asked, model_.num_chunks());
  check_ = [] {};
  expect_whole(hosts, [&] {
    const fs::path copy = fetch(hosts);
    told_.from_workers = hosts.given[1];  // of both times
    return copy;
  }());
  EXPECT_EQ(hosts.asked[kHomeProcess] + hosts.asked[1], model_.num_chunks())
      << "nothing is fetched twice";
}

TEST_F(FetchingFromSeveral, BeginsAnewWithOtherFiles) {
  const SomeModel other(19, 2);
  PlayedHosts others(other);
  int looks = 0;
  check_ = [&] {
    if (++looks == 4) {
      throw Error(Errc::interrupted, "test", "stopped");
    }
  };
  EXPECT_THROW((void)fetch(others), Error);
  check_ = [] {};
  PlayedHosts hosts(model_);
  expect_whole(hosts, fetch(hosts));
  EXPECT_EQ(hosts.asked[kHomeProcess], model_.num_chunks());
}

}  // namespace
}  // namespace troupe::actors
