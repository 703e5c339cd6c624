// How a process gets to the values of another.

#include "actors/remote/peer_routes.h"

#include <gtest/gtest.h>

#include <chrono>

namespace troupe::actors {
namespace {

using Way = PeerRoutes::Way;
using std::chrono::seconds;

/// Process 1 of a job, which knows of process 2.
class Routes : public testing::Test {
 protected:
  Routes() {
    routes_.begin(1, {"own request", "own answer"});
    EXPECT_TRUE(routes_.set_address(address()).leave.empty());
  }

  static PeerAddress address() {
    return {2, {"ipc:///a", "ipc:///b"}, {"their request", "their answer"}};
  }

  /// Process 2 has been dialled, under this number, and has answered.
  void link(net::PeerId peer) {
    EXPECT_TRUE(routes_.ask(2, now_).moves.dial);
    routes_.dialled(2, peer);
    const auto moves = routes_.came_up(peer, {2, "their answer"}, now_);
    EXPECT_TRUE(moves.leave.empty());
  }

  TimePoint now_;
  PeerRoutes routes_;
};

TEST_F(Routes, GoThroughTheCoordinatorToWhomNobodyKnows) {
  EXPECT_EQ(routes_.ask(3, now_).way, Way::relay);
  PeerRoutes young;
  (void)young.set_address(address());
  const auto route = young.ask(2, now_);
  EXPECT_EQ(route.way, Way::relay) << "it has no number yet";
  EXPECT_FALSE(route.moves.dial);
}

TEST_F(Routes, WaitForTheFirstLink) {
  const auto first = routes_.ask(2, now_);
  EXPECT_EQ(first.way, Way::wait);
  ASSERT_TRUE(first.moves.dial);
  EXPECT_EQ(first.moves.dial->endpoint, "ipc:///a");
  EXPECT_EQ(first.moves.dial->greeting.process, 1);
  EXPECT_EQ(first.moves.dial->greeting.token, "their request");
  routes_.dialled(2, 7);
  const auto second = routes_.ask(2, now_);
  EXPECT_EQ(second.way, Way::wait);
  EXPECT_FALSE(second.moves.dial) << "once is enough";
  (void)routes_.came_up(7, {2, "their answer"}, now_);
  const auto third = routes_.ask(2, now_);
  EXPECT_EQ(third.way, Way::direct);
  EXPECT_EQ(third.peer, 7U);
}

TEST_F(Routes, TryEveryEndpointAndThenRest) {
  (void)routes_.ask(2, now_);
  routes_.dialled(2, 7);
  const auto next = routes_.lost(7, now_);
  ASSERT_TRUE(next.dial);
  EXPECT_EQ(next.dial->endpoint, "ipc:///b");
  EXPECT_EQ(routes_.ask(2, now_).way, Way::wait);
  EXPECT_FALSE(routes_.not_dialled(2, now_).dial) << "there is no third";
  const auto soon = routes_.ask(2, now_ + seconds(9));
  EXPECT_EQ(soon.way, Way::relay);
  EXPECT_FALSE(soon.moves.dial);
  const auto later = routes_.ask(2, now_ + seconds(10));
  EXPECT_EQ(later.way, Way::relay) << "nobody waits twice";
  ASSERT_TRUE(later.moves.dial);
  EXPECT_EQ(later.moves.dial->endpoint, "ipc:///a");
  routes_.dialled(2, 8);
  (void)routes_.came_up(8, {2, "their answer"}, now_ + seconds(11));
  EXPECT_EQ(routes_.ask(2, now_ + seconds(11)).peer, 8U);
}

TEST_F(Routes, RestAfterALinkThatBroke) {
  link(7);
  (void)routes_.lost(7, now_);
  EXPECT_EQ(routes_.ask(2, now_ + seconds(9)).way, Way::relay);
  const auto later = routes_.ask(2, now_ + seconds(10));
  EXPECT_EQ(later.way, Way::relay);
  EXPECT_TRUE(later.moves.dial);
}

TEST_F(Routes, LeaveWhoeverListensThereByNow) {
  for (const PeerGreeting& stranger :
       {PeerGreeting{2, "their request"}, PeerGreeting{3, "their answer"},
        PeerGreeting{}}) {
    PeerRoutes routes;
    routes.begin(1, {"own request", "own answer"});
    (void)routes.set_address(
        {2, {"ipc:///a"}, {"their request", "their answer"}});
    (void)routes.ask(2, now_);
    routes.dialled(2, 7);
    const auto moves = routes.came_up(7, stranger, now_);
    EXPECT_EQ(moves.leave, std::vector<net::PeerId>{7});
    EXPECT_EQ(routes.ask(2, now_).way, Way::relay);
  }
}

TEST_F(Routes, UseTheLinkOfAGreetingWithTheToken) {
  const auto answer = routes_.accept(9, {2, "own request"});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->process, 1);
  EXPECT_EQ(answer->token, "own answer");
  EXPECT_EQ(routes_.ask(2, now_).way, Way::wait) << "it is not up yet";
  (void)routes_.came_up(9, {2, "own request"}, now_);
  EXPECT_EQ(routes_.ask(2, now_).peer, 9U);
  EXPECT_FALSE(routes_.accept(10, {2, "own answer"}));
  EXPECT_FALSE(routes_.accept(10, {2, ""}));
  EXPECT_FALSE(routes_.accept(10, {0, "own request"})) << "the coordinator";
  EXPECT_FALSE(routes_.accept(10, {1, "own request"})) << "itself";
}

TEST_F(Routes, KeepTheOtherLinkWhereBothHaveDialled) {
  link(7);
  (void)routes_.accept(9, {2, "own request"});
  (void)routes_.came_up(9, {2, "own request"}, now_);
  EXPECT_EQ(routes_.ask(2, now_).peer, 7U);
  (void)routes_.lost(7, now_);
  EXPECT_EQ(routes_.ask(2, now_).peer, 9U);
}

TEST_F(Routes, EndWithTheProcess) {
  link(7);
  (void)routes_.accept(9, {2, "own request"});
  const auto moves = routes_.set_address({2, {}, {}});
  EXPECT_EQ(moves.leave, std::vector<net::PeerId>{7});
  EXPECT_EQ(routes_.ask(2, now_).way, Way::relay);
  EXPECT_FALSE(routes_.ask(2, now_ + seconds(60)).moves.dial);
  EXPECT_EQ(routes_.came_up(9, {2, "own request"}, now_).leave,
            std::vector<net::PeerId>{9});
}

TEST_F(Routes, KnowWhoGivesTheModel) {
  EXPECT_EQ(routes_.model_givers(), std::vector<int>{});
  PeerAddress giver = address();
  giver.gives_model = true;
  (void)routes_.set_address(giver);
  EXPECT_EQ(routes_.model_givers(), std::vector<int>{2});
  link(7);
  (void)routes_.set_address(giver);
  EXPECT_EQ(routes_.ask(2, now_).peer, 7U) << "its link stays";
  (void)routes_.distrust(2);
  EXPECT_EQ(routes_.model_givers(), std::vector<int>{});
  giver.process = 3;
  (void)routes_.set_address(giver);
  EXPECT_EQ(routes_.model_givers(), std::vector<int>{3});
  (void)routes_.set_address({3, {}, {}});
  EXPECT_EQ(routes_.model_givers(), std::vector<int>{});
}

TEST_F(Routes, AvoidAProcessWhoseValuesCameDamaged) {
  link(7);
  EXPECT_EQ(routes_.distrust(2).leave, std::vector<net::PeerId>{7});
  const auto route = routes_.ask(2, now_ + seconds(60));
  EXPECT_EQ(route.way, Way::relay);
  EXPECT_FALSE(route.moves.dial);
  EXPECT_FALSE(routes_.accept(9, {2, "own request"}));
}

}  // namespace
}  // namespace troupe::actors
