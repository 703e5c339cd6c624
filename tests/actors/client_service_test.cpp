// Who looks at a job over a link, and who cancels.

#include "actors/remote/client_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/remote/company_listener.h"
#include "actors/remote/job_client.h"
#include "tests/actors/on_a_switchboard.h"

namespace troupe::actors {
namespace {

using std::chrono::seconds;

class ClientsOfAJob : public OnASwitchboard {
 protected:
  ClientsOfAJob()
      : clients_({.version = "test",
                  .status =
                      [] {
                        JobStatus status;
                        status.progress.samples_total = 12;
                        return status;
                      },
                  .cancel =
                      [this](const std::string& by) {
                        ++cancels_;
                        cancelled_by_ = by;
                      },
                  .begin = 10,
                  .end = 20,
                  .skip = {15, 11}}),
        listener_(std::make_unique<CompanyListener>(
            ListenerSpec{.version = "test",
                         .hub = {.role = "coordinator"},
                         .endpoints = {"inproc://job"},
                         .offer = {},
                         .clients = &clients_,
                         .make_hub = hub_maker()})) {}

  std::unique_ptr<JobClient> client(std::string_view role,
                                    const std::string& version = "test") {
    return std::make_unique<JobClient>(
        ClientSpec{.version = version,
                   .name = "test",
                   .hub = {.role = std::string(role)},
                   .endpoint = "inproc://job",
                   .dial = {},
                   .make_hub = hub_maker()});
  }
  static ClientAnswer ask(JobClient& client, const ClientQuestion& question) {
    return client.ask(question, seconds(20), {}).value();
  }
  static void expect_error(JobClient& client, const ClientQuestion& question,
                           Errc code, const std::string& says) {
    try {
      (void)client.ask(question, seconds(20), {});
      ADD_FAILURE() << "got an answer";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(says), std::string::npos)
          << error.what();
    }
  }
  void end(std::uint64_t sample, SampleStatus status) {
    SampleOutcome outcome;
    outcome.report = {sample, status};
    clients_.on_sample(outcome);
  }

  std::atomic<int> cancels_ = 0;
  std::string cancelled_by_;  ///< read once the client has its answer
  ClientService clients_;
  std::unique_ptr<CompanyListener> listener_;
};

TEST_F(ClientsOfAJob, SeeHowItStandsAgainAndAgain) {
  const auto looker = client(kClientRole);
  for (int i = 0; i < 3; ++i) {
    const ClientAnswer answer = ask(*looker, AskStatus{});
    EXPECT_EQ(std::get<JobStatus>(answer).progress.samples_total, 12U);
  }
  EXPECT_TRUE(listener_->processes().empty()) << "a client is no process";
}

TEST_F(ClientsOfAJob, LookAndDoNotCancelUnlessTheyOwnIt) {
  const auto looker = client(kClientRole);
  EXPECT_FALSE(looker->ask(AskStop{}, seconds(20), {})) << "sent away";
  EXPECT_EQ(cancels_, 0);
  const auto owner = client(kOwnerRole);
  (void)ask(*owner, AskStop{"ann"});
  EXPECT_EQ(cancels_, 1);
  EXPECT_EQ(cancelled_by_, "ann at test");
  // What a client says of itself is shown in a line.
  (void)ask(*owner, AskStop{"\x1b[2J" + std::string(2000, 'x') + "\n"});
  EXPECT_EQ(cancelled_by_.find_first_of("\x1b\n"), std::string::npos);
  EXPECT_LT(cancelled_by_.size(), 200U);
}

TEST_F(ClientsOfAJob, HearWhatBecameOfASampleTheyCancel) {
  const auto owner = client(kOwnerRole);
  end(12, SampleStatus::done);
  end(13, SampleStatus::cancelled);
  const auto says = [&](std::uint64_t sample) {
    return std::get<Granted>(ask(*owner, CancelSample{sample})).what;
  };
  EXPECT_EQ(says(13), "image 13 was cancelled");
  EXPECT_NE(says(12).find("image 12 is done"), std::string::npos);
}

TEST_F(ClientsOfAJob, CannotCancelWhatTheJobDoesNotMake) {
  for (const std::uint64_t sample : {9, 20, 11, 15}) {
    expect_error(
        *client(kOwnerRole), CancelSample{sample}, Errc::invalid_argument,
        "got " + std::to_string(sample) + ", expected one of 10 to 19");
  }
  expect_error(*client(kOwnerRole), CancelSample{10}, Errc::unreachable,
               "does not run");
}

TEST_F(ClientsOfAJob, AreOfItsVersion) {
  expect_error(*client(kClientRole, "older"), AskStatus{},
               Errc::invalid_argument, "got older, expected test");
}

TEST_F(ClientsOfAJob, AreNotMoreThanItHasRoomFor) {
  std::vector<std::unique_ptr<JobClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(client(kClientRole));
    (void)ask(*clients.back(), AskStatus{});
  }
  expect_error(*client(kClientRole), AskStatus{}, Errc::invalid_argument,
               "too many clients");
  (void)ask(*clients.front(), AskStatus{});
}

TEST_F(ClientsOfAJob, HearThatItIsOver) {
  const auto looker = client(kClientRole);
  (void)ask(*looker, AskStatus{});
  listener_ = nullptr;
  EXPECT_FALSE(looker->ask(AskStatus{}, seconds(20), {}));
}

TEST_F(ClientsOfAJob, HearThatNobodyListens) {
  listener_ = nullptr;
  expect_error(*client(kClientRole), AskStatus{}, Errc::unreachable, "job");
}

}  // namespace
}  // namespace troupe::actors
