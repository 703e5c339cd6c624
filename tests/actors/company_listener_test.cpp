// Who comes to a job over a link, and when.

#include "actors/remote/company_listener.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/remote/company_member.h"
#include "actors/remote/outbox.h"
#include "actors/wire/codec.h"
#include "tests/actors/on_a_switchboard.h"

namespace troupe::actors {
namespace {

class LinksToAJob : public OnASwitchboard {
 protected:
  LinksToAJob()
      : listener_({.version = "test",
                   .hub = {.role = "coordinator"},
                   .endpoints = {"inproc://job"},
                   .offer = {},
                   .classes = &classes_,
                   .make_hub = hub_maker()}) {}

 private:
  JobClasses classes_{{}};

 protected:
  CompanyListener listener_;
};

TEST_F(LinksToAJob, BringTheOffer) {
  const auto early = member();
  EXPECT_TRUE(early->wait_for_offer({}));
  EXPECT_EQ(early->process(), 1);
  EXPECT_EQ(listener_.processes().size(), 1U);
}

TEST_F(LinksToAJob, AreRefusedToAnotherVersion) {
  const auto other = member("older");
  try {
    (void)other->wait_for_offer({});
    ADD_FAILURE() << "got the job";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("got older, expected test"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(LinksToAJob, SayWhenThereIsNothingLeftToDo) {
  auto early = member();
  ASSERT_TRUE(early->wait_for_offer({}));
  // `end` waits until the first member has left. Meanwhile other members come.
  std::jthread farewell([this] { listener_.end({}); });
  std::optional<Offered> offer;
  do {
    offer = member()->wait_for_offer({});
  } while (offer);  // until the end has begun
  early = nullptr;
  farewell.join();
  const auto late = member();
  EXPECT_FALSE(late->wait_for_offer({}));
}

/// A process that says what a test tells it to say.
class Speaker final : public net::LinkHandler {
 public:
  explicit Speaker(const auto& make_hub)
      : hub_(make_hub({.role = "worker"}, *this)) {
    peer_ = hub_->dial("inproc://job",
                       {.record = wire::encode(Applicant{"test", "test", {}})});
    up_.get_future().wait();
  }
  void say(const wire::News& news) {
    Outbox(*hub_, peer_).send(wire::encode(news));
  }

 private:
  void on_greeting(net::PeerId, const net::Greeting&) override {}
  void on_up(net::PeerId, const net::Greeting&) override { up_.set_value(); }
  void on_record(net::PeerId, std::span<const std::byte>) override {}
  void on_room(net::PeerId) override {}
  void on_wanted(net::PeerId, net::WantId, std::string_view) override {}
  void on_lost(net::PeerId, const net::Loss&) override {}

  std::promise<void> up_;
  net::PeerId peer_ = 0;
  std::unique_ptr<net::Hub> hub_;
};

/// Three processes, of which some say whose values came damaged.
class DamagedValues : public LinksToAJob {
 protected:
  DamagedValues() {
    for (int i = 0; i < 3; ++i) {
      speakers_.push_back(std::make_unique<Speaker>(hub_maker()));
    }
  }
  void say(int process, const DamagedValue& value) {
    speakers_[static_cast<std::size_t>(process - 1)]->say(value);
  }
  /// When this one is dropped: all that are, and why.
  std::map<int, std::string> dropped(int process) {
    const TimePoint deadline = SteadyClock().now() + std::chrono::minutes(1);
    std::map<int, std::string> gone;
    while (!gone.contains(process) && SteadyClock().now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (const Process& one : listener_.processes()) {
        if (one.has_left()) {
          gone[one.process] = one.cause;
        }
      }
    }
    EXPECT_TRUE(gone.contains(process));
    return gone;
  }

  std::vector<std::unique_ptr<Speaker>> speakers_;
};

TEST_F(DamagedValues, DropWhoGaveThem) {
  say(2, {2, 3});
  const auto gone = dropped(3);
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_EQ(gone.at(3),
            "a value of process 3 came damaged to process 2, which gets others "
            "whole");
}

TEST_F(DamagedValues, DropWhoGetsThemFromTwo) {
  say(2, {2, 3});
  say(2, {2, 3});  // again
  say(2, {2, 1});
  const auto gone = dropped(2);
  EXPECT_TRUE(gone.contains(3));
  EXPECT_FALSE(gone.contains(1));
  EXPECT_NE(gone.at(2).find("two processes"), std::string::npos) << gone.at(2);
}

TEST_F(DamagedValues, DropWhoGetsThemFromTheFirstProcess) {
  say(1, {1, kHomeProcess});
  const auto gone = dropped(1);
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_NE(gone.at(1).find("first process"), std::string::npos) << gone.at(1);
}

TEST_F(DamagedValues, AreNotBelievedOfOthersAndOfNobody) {
  say(1, {3, 2});
  EXPECT_EQ(dropped(1).size(), 1U);
  say(2, {2, 4});
  const auto gone = dropped(2);
  EXPECT_EQ(gone.size(), 2U);
  EXPECT_NE(gone.at(2).find("another process"), std::string::npos)
      << gone.at(2);
}

}  // namespace
}  // namespace troupe::actors
