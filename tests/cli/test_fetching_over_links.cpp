// A model is fetched over links from processes that have files of it.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "actors/cli/model_cache.h"
#include "actors/remote/company_listener.h"
#include "actors/remote/company_member.h"
#include "tests/actors/linked_company.h"
#include "tests/cli/some_model.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

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
    const std::filesystem::path copy =
        ModelCache(caches_.at(number).path())
            .fetch({}, member, FetchFrom::anyone,
                   {.progress =
                        [&](const FetchProgress& now) {
                          from_workers = now.from_workers;
                        },
                    .check = [] {},
                    .waits = [] {}});
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
