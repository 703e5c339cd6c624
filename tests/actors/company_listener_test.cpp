// Who comes to a job over a link, and when.

#include "actors/remote/company_listener.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "actors/remote/company_member.h"

namespace troupe::actors {
namespace {

class LinksToAJob : public testing::Test {
 protected:
  LinksToAJob()
      : listener_({.version = "test",
                   .hub = {.role = "coordinator"},
                   .endpoints = {"inproc://job"},
                   .offer = {},
                   .classes = &classes_,
                   .make_hub = hub_maker()}) {}

  std::unique_ptr<CompanyMember> member(const std::string& version = "test") {
    return std::make_unique<CompanyMember>(
        MemberSpec{.version = version,
                   .name = "test",
                   .hub = {.role = "worker"},
                   .endpoint = "inproc://job",
                   .make_hub = hub_maker()});
  }

 private:
  std::function<std::unique_ptr<net::Hub>(net::HubOptions, net::LinkHandler&)>
  hub_maker() {
    return [this](net::HubOptions options, net::LinkHandler& handler) {
      return board_->make_hub(std::move(options), handler);
    };
  }

  JobClasses classes_{{}};
  std::unique_ptr<net::Switchboard> board_ = net::make_switchboard();

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
  // It waits for those who are there, and meanwhile somebody comes.
  std::jthread farewell([this] { listener_.end({}); });
  std::optional<Offer> offer;
  do {
    offer = member()->wait_for_offer({});
  } while (offer);  // until the end has begun
  early = nullptr;
  farewell.join();
  const auto late = member();
  EXPECT_FALSE(late->wait_for_offer({}));
}

}  // namespace
}  // namespace troupe::actors
