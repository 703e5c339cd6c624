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

#include "actors/cli/model_cache.h"
#include "actors/remote/company_listener.h"
#include "actors/remote/company_member.h"
#include "kernels/core/error.h"
#include "tests/actors/linked_company.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using net::FetchStatus;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return std::move(content).str();
}

/// A folder of files as a model has them.
class SomeModel {
 public:
  explicit SomeModel(std::size_t megabytes, unsigned seed = 1) {
    add("model_index.json", 300, seed);
    add("vae/empty.json", 0, seed);
    add("transformer/weights.safetensors", megabytes * kMiB + 77, seed);
    add("vae/weights.safetensors", 2 * kMiB, seed);
  }

  [[nodiscard]] const fs::path& folder() const { return folder_.path(); }
  [[nodiscard]] const std::vector<fs::path>& paths() const { return paths_; }
  [[nodiscard]] const std::vector<ModelFile>& files() const { return files_; }
  [[nodiscard]] std::size_t num_chunks() const {
    return ModelChunks(files_).size();
  }
  [[nodiscard]] std::string chunk(const std::string& key) const {
    const auto asked = chunk_of(key).value();
    const ModelFile& file = files_.at(asked.first);
    return contents_.at(file.path).substr(asked.second * kModelChunkBytes,
                                          kModelChunkBytes);
  }
  void expect_copy_at(const fs::path& copy) const {
    std::size_t files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(copy)) {
      files += entry.is_regular_file() ? 1U : 0U;
    }
    EXPECT_EQ(files, files_.size());
    for (const auto& [path, content] : contents_) {
      EXPECT_TRUE(bytes_in(copy / path) == content) << path;
    }
  }

 private:
  void add(const std::string& path, std::size_t bytes, unsigned seed) {
    std::mt19937_64 random(seed + bytes);
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; i += 64) {
      content[i] = static_cast<char>(random());
    }
    fs::create_directories((folder_.path() / path).parent_path());
    std::ofstream(folder_.path() / path, std::ios::binary) << content;
    paths_.emplace_back(path);
    files_.push_back({path, bytes});
    contents_[path] = std::move(content);
  }

  TemporaryFolder folder_;
  std::vector<fs::path> paths_;
  std::vector<ModelFile> files_;
  std::map<std::string, std::string> contents_;
};

/// Answers at once, as a test says.
class PlayedHosts final : public ModelHosts {
 public:
  /// What a giver says to a question; nothing: what is right.
  using Giver =
      std::function<std::optional<net::Fetched>(const std::string& key)>;

  explicit PlayedHosts(const SomeModel& model) : model_(model) {}

  [[nodiscard]] int process() const override { return 3; }
  [[nodiscard]] std::vector<int> model_givers() const override {
    std::vector<int> processes;
    for (const auto& [process, answer] : givers) {
      processes.push_back(process);
    }
    return processes;
  }
  void ask(int process, const std::string& key, const net::FetchOptions&,
           const net::FetchTaker& taker) override {
    std::optional<net::Fetched> said;
    if (process != kHomeProcess) {
      said = givers.at(process)(key);
    }
    const bool is_chunk = chunk_of(key).has_value();
    asked[process] += is_chunk ? 1U : 0U;
    if (!said) {
      std::string right = is_chunk                ? model_.chunk(key)
                          : key == kModelFilesKey ? encode(model_.files())
                                                  : all();
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

std::optional<net::Fetched> as_asked(const std::string& /*key*/) { return {}; }

/// Has all chunks, as it says, and gives none.
PlayedHosts::Giver only_says(FetchStatus status) {
  return [status](const std::string& key) -> std::optional<net::Fetched> {
    if (key == kModelChunksKey) {
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
                .check = check_});
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
  TemporaryFolder cache_;
};

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
  hosts.givers[1] = [&](const std::string& key) -> std::optional<net::Fetched> {
    if (key == kModelChunksKey || left > 0) {
      left -= key == kModelChunksKey ? 0 : 1;
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
         [&](const std::string& key) -> std::optional<net::Fetched> {
           if (key == kModelChunksKey) {
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
      {1, [](const std::string&) -> std::optional<net::Fetched> {
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

/// Counts the chunks that are given, and gives each slowly.
class SlowGiver final : public HubBefore {
 public:
  SlowGiver(std::unique_ptr<net::Hub> hub, std::atomic<int>& count)
      : HubBefore(std::move(hub)), count_(count) {}
  void give(net::WantId want, net::Value value) override {
    if (value.front().size == kModelChunkBytes) {
      ++count_;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    HubBefore::give(want, std::move(value));
  }

 private:
  std::atomic<int>& count_;
};

/// Processes of this program, with real links.
class FetchingOverLinks : public testing::Test {
 protected:
  using HubMaker = std::function<std::unique_ptr<net::Hub>(net::HubOptions,
                                                           net::LinkHandler&)>;

  /// `count`: of a hub that gives slowly.
  HubMaker hub_maker(std::atomic<int>* count) {
    return
        [this, count](net::HubOptions options,
                      net::LinkHandler& handler) -> std::unique_ptr<net::Hub> {
          auto hub = board_->make_hub(std::move(options), handler);
          if (count != nullptr) {
            return std::make_unique<SlowGiver>(std::move(hub), *count);
          }
          return hub;
        };
  }
  std::unique_ptr<CompanyMember> member(std::atomic<int>* count = nullptr,
                                        bool has_peers = true) {
    MemberSpec spec{.version = "test",
                    .name = "test",
                    .hub = {.role = "worker"},
                    .endpoint = "inproc://job",
                    .make_hub = hub_maker(count)};
    caches_.emplace_back();
    if (has_peers) {
      spec.peers =
          PeerSpec{.bind = "inproc://member" + std::to_string(caches_.size())};
    }
    auto member = std::make_unique<CompanyMember>(std::move(spec));
    EXPECT_TRUE(member->wait_for_offer({}));
    return member;
  }
  /// How many bytes came from workers.
  std::uint64_t fetch(CompanyMember& member) {
    const auto number = static_cast<std::size_t>(member.process() - 1);
    std::uint64_t from_workers = 0;
    const fs::path copy = ModelCache(caches_.at(number).path())
                              .fetch({}, member, FetchFrom::anyone,
                                     {.progress =
                                          [&](const FetchProgress& now) {
                                            from_workers = now.from_workers;
                                          },
                                      .check = [] {}});
    model_.expect_copy_at(copy);
    return from_workers;
  }
  std::shared_ptr<ModelGiver> giver() const {
    return std::make_shared<ModelGiver>(model_.folder(), model_.paths());
  }

  SomeModel model_{40};
  std::atomic<int> from_first_ = 0;
  std::deque<TemporaryFolder> caches_;  ///< of each member
  JobClasses classes_{{}};
  std::unique_ptr<net::Switchboard> board_ = net::make_switchboard();
  CompanyListener listener_{{.version = "test",
                             .hub = {.role = "coordinator"},
                             .endpoints = {"inproc://job"},
                             .offer = {},
                             .classes = &classes_,
                             .model = giver(),
                             .make_hub = hub_maker(&from_first_)}};
};

/// Until it has heard of a member that has the model: addresses of others come
/// after the offer.
void await_giver(const CompanyMember& member) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (member.model_givers().empty()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_F(FetchingOverLinks, TakesFromAMemberThatHasTheModel) {
  const auto has_it = member();
  has_it->give_model(giver());
  const auto newcomer = member();
  await_giver(*newcomer);
  EXPECT_GT(fetch(*newcomer), 21 * kMiB);
  EXPECT_TRUE(newcomer->gives_model());
  EXPECT_LT(from_first_, 21);
}

TEST_F(FetchingOverLinks, TakesNothingWherePeersAreNotWanted) {
  const auto has_it = member();
  has_it->give_model(giver());
  const auto shy = member(nullptr, false);
  EXPECT_EQ(fetch(*shy), 0U);
  EXPECT_FALSE(shy->gives_model());
  shy->give_model(giver());
  EXPECT_FALSE(shy->gives_model());
}

TEST_F(FetchingOverLinks, GoesOnWhenTheGiverLeaves) {
  std::atomic<int> from_giver = 0;
  auto has_it = member(&from_giver);
  has_it->give_model(giver());
  const auto newcomer = member();
  await_giver(*newcomer);
  std::jthread leaves([&](const std::stop_token& is_over) {
    while (from_giver < 3 && !is_over.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    has_it.reset();
  });
  EXPECT_LT(fetch(*newcomer), 20 * kMiB);
  leaves.request_stop();
}

TEST_F(FetchingOverLinks, IsSharedByThoseWhoComeTogether) {
  constexpr int kNumMembers = 4;
  std::vector<std::unique_ptr<CompanyMember>> members;
  std::vector<std::future<std::uint64_t>> fetched;
  for (int i = 0; i < kNumMembers; ++i) {
    members.push_back(member());
  }
  for (const auto& one : members) {
    fetched.push_back(
        std::async(std::launch::async, [this, &one] { return fetch(*one); }));
  }
  std::uint64_t from_workers = 0;
  for (auto& one : fetched) {
    from_workers += one.get();
  }
  EXPECT_GT(from_workers, 42 * kMiB);
  EXPECT_LT(from_first_, kNumMembers * 42 - 42) << "a whole copy was spared";
}

}  // namespace
}  // namespace troupe::actors
