// What a worker's process does with messages from its link.

#include "actors/remote/company_member.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "actors/remote/outbox.h"
#include "actors/remote/proxies.h"
#include "actors/system_config.h"
#include "actors/wire/codec.h"
#include "tests/actors/linked_company.h"
#include "tests/actors/observed_job.h"

namespace troupe::actors {
namespace {

/// A coordinator's process without a coordinator. The test sends messages to
/// the one process that joins, and reads the answers. Without an offer the
/// process is let in and gets no message.
class Director final : public net::LinkHandler {
 public:
  Director(net::Switchboard& board, std::optional<Offer> offer)
      : offer_(std::move(offer)),
        hub_(board.make_hub({.role = "coordinator"}, *this)) {
    hub_->listen("inproc://job");
  }

  /// The next news of this kind; those before it are dropped. Nothing: the link
  /// has ended.
  template <typename Kind>
  std::optional<Kind> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      came_.wait(lock, [this] { return !news_.empty() || is_lost_; });
      if (news_.empty()) {
        return std::nullopt;
      }
      const wire::News news = std::move(news_.front());
      news_.pop_front();
      if (const auto* found = std::get_if<Kind>(&news)) {
        return *found;
      }
    }
  }
  void tell(wire::News news) { outbox_->send(wire::encode(std::move(news))); }
  [[nodiscard]] std::shared_ptr<Outbox> outbox() const { return outbox_; }
  net::FetchStatus fetch(const ValueKey& key) {
    std::promise<net::FetchStatus> status;
    hub_->fetch(peer_, wire::encode(key), {},
                [&](const net::Fetched& its) { status.set_value(its.status); });
    return status.get_future().get();
  }

 private:
  void on_greeting(net::PeerId peer,
                   const net::Greeting& /*greeting*/) override {
    hub_->accept(peer, wire::encode(Welcome{.version = "test", .process = 1}));
  }
  void on_up(net::PeerId peer, const net::Greeting& /*greeting*/) override {
    outbox_ = std::make_shared<Outbox>(*hub_, peer);
    peer_ = peer;
    if (offer_) {
      tell(*offer_);
    }
  }
  void on_record(net::PeerId /*peer*/,
                 std::span<const std::byte> record) override {
    if (const auto message = assembler_.add(record, wire::kMostNewsBytes)) {
      const std::lock_guard lock(mutex_);
      news_.push_back(wire::decode_news(net::bytes_of(*message)));
      came_.notify_all();
    }
  }
  void on_room(net::PeerId /*peer*/) override { outbox_->on_room(); }
  void on_wanted(net::PeerId /*peer*/, net::WantId want,
                 std::string_view /*key*/) override {
    hub_->give_nothing(want);
  }
  void on_lost(net::PeerId /*peer*/, const net::Loss& /*loss*/) override {
    const std::lock_guard lock(mutex_);
    is_lost_ = true;
    came_.notify_all();
  }

  std::optional<Offer> offer_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<wire::News> news_;
  bool is_lost_ = false;
  Assembler assembler_;
  net::PeerId peer_ = 0;
  std::shared_ptr<Outbox> outbox_;
  std::unique_ptr<net::Hub> hub_;
};

MemberSpec member_of(net::Switchboard& board, Duration patience) {
  return {
      .version = "test",
      .name = "test",
      .hub = {.role = "worker"},
      .endpoint = "inproc://job",
      .patience = patience,
      .make_hub = [&board](net::HubOptions options, net::LinkHandler& handler) {
        return board.make_hub(std::move(options), handler);
      }};
}

/// Computes a job with one worker.
MemberEnd serve_alone(CompanyMember& member, const ObservedJob& job) {
  WorkerTraits place;
  place.process = member.process();
  return member.serve({.parts = job.spec.parts,
                       .workers = {place},
                       .classes = {{.name = "0123456789abcdef"}},
                       .restart = job.spec.restart},
                      {}, {});
}

TEST(AMemberOfASilentJob, IsOfferedNothing) {
  const std::unique_ptr<net::Switchboard> board = net::make_switchboard();
  const Director silent(*board, std::nullopt);
  CompanyMember member(member_of(*board, std::chrono::milliseconds(200)));
  try {
    (void)member.wait_for_offer({});
    FAIL() << "it was offered a job";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unreachable);
    EXPECT_EQ(error.place(), "inproc://job");
    EXPECT_EQ(error.message(), "the first process offered no job within 0.2 s");
  }
}

TEST(AMemberOfASilentJob, IsNotAdmitted) {
  const std::unique_ptr<net::Switchboard> board = net::make_switchboard();
  ObservedJob job;
  const Director silent(*board, offer_of(job.spec));
  CompanyMember member(member_of(*board, std::chrono::seconds(3)));
  ASSERT_TRUE(member.wait_for_offer({}));
  const MemberEnd end = serve_alone(member, job);
  EXPECT_EQ(end.kind, MemberEnd::Kind::lost) << "it dials again";
  EXPECT_EQ(end.cause.value().code, Errc::unreachable);
  EXPECT_EQ(end.cause->place, "inproc://job");
  EXPECT_NE(end.cause->message.find("did not admit"), std::string::npos);
}

TEST(AMemberThatEncodes, HoldsTextsUntilTheyAreFetchedButNotMany) {
  const std::unique_ptr<net::Switchboard> board = net::make_switchboard();
  ObservedJob job;
  Director director(*board, offer_of(job.spec));
  CompanyMember member(member_of(*board, std::chrono::minutes(1)));
  ASSERT_TRUE(member.wait_for_offer({}));
  const models::EncodedText large{Tensor::zeros({5, 1 << 20}, DType::f32), {}};
  member.give_text(0, large);
  member.give_text(1, large);
  EXPECT_EQ(director.next<TextEncoded>().value().text, 0U);
  EXPECT_EQ(director.next<TextEncoded>().value().text, 1U);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(member.give_text(2, large, stop.get_token()), Error);
  for (int asked = 0; asked < 2; ++asked) {
    EXPECT_EQ(director.fetch(TextKey{0}), net::FetchStatus::found);
  }
  director.tell(TextFetched{0});
  member.give_text(2, large);
  EXPECT_EQ(director.next<TextEncoded>().value().text, 2U);
  EXPECT_EQ(director.fetch(TextKey{0}), net::FetchStatus::gone);
  EXPECT_EQ(director.fetch(TextKey{2}), net::FetchStatus::found);
}

/// A process with one worker, member of a job that the test directs.
class AMember : public testing::Test {
 protected:
  AMember() {
    EXPECT_TRUE(director_.next<Join>());
    director_.tell(AdmitProcess{1, 0, 1});
  }
  ~AMember() override { director_.tell(JobOver{}); }

  void serve() {
    CompanyMember member(member_of(*board_, std::chrono::minutes(1)));
    ASSERT_TRUE(member.wait_for_offer({}));
    end_.set_value(serve_alone(member, job_));
  }

  ObservedJob job_;
  std::unique_ptr<net::Switchboard> board_ = net::make_switchboard();
  Director director_{*board_, offer_of(job_.spec)};
  std::promise<MemberEnd> end_;
  std::jthread process_{[this] { serve(); }};
};

Failure end_for_good() {
  return {Errc::device_lost, "worker", "its device has gone", {}};
}

TEST_F(AMember, EndsAWorkerAndStartsItAgain) {
  const std::optional<WorkerUp> up = director_.next<WorkerUp>();
  ASSERT_TRUE(up);
  director_.tell(
      EndWorker{0, up->epoch, {Errc::job_failed, "worker", "was silent", {}}});
  const std::optional<WorkerDown> down = director_.next<WorkerDown>();
  ASSERT_TRUE(down);
  EXPECT_EQ(down->epoch, up->epoch);
  EXPECT_FALSE(down->gone);
  const std::optional<WorkerUp> again = director_.next<WorkerUp>();
  ASSERT_TRUE(again);
  director_.tell(EndWorker{0, again->epoch, end_for_good()});
  EXPECT_TRUE(director_.next<WorkerDown>().value().gone);
}

TEST_F(AMember, EndsNoWorkerForWhatWasMeantForTheOneBefore) {
  SystemConfig config;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto end = [&](const WorkerUp& up, Failure cause) {
    const auto proxy = spawn_worker_proxy(system, director_.outbox(), up);
    self->send_exit(proxy, to_caf_error(std::move(cause)));
    self->wait_for(proxy);
  };
  const Failure silent{Errc::job_failed, "worker", "was silent", {}};
  const std::optional<WorkerUp> first = director_.next<WorkerUp>();
  ASSERT_TRUE(first);
  end(*first, silent);
  const std::optional<WorkerUp> second = director_.next<WorkerUp>();
  ASSERT_TRUE(second);
  // The first of these two would keep it from being started again.
  end(*first, end_for_good());
  end(*second, silent);
  const std::optional<WorkerDown> down = director_.next<WorkerDown>();
  ASSERT_TRUE(down);
  EXPECT_EQ(down->epoch, second->epoch);
  EXPECT_FALSE(down->gone);
}

TEST_F(AMember, LeavesACoordinatorWhoseGrantsAreNotOfTheJob) {
  const std::optional<WorkerUp> up = director_.next<WorkerUp>();
  ASSERT_TRUE(up);
  SampleTask task;
  task.sample_index = 5;
  task.task.inputs = {samplers::kInitialSlot};
  task.task.outputs = {2};
  director_.tell(Grant{.worker = 0, .epoch = up->epoch, .tasks = {task}});
  const MemberEnd end = end_.get_future().get();
  EXPECT_EQ(end.kind, MemberEnd::Kind::failed);
  EXPECT_EQ(end.cause.value().code, Errc::corrupt_file);
  EXPECT_EQ(end.cause->message,
            "a task of a sample: got 5, expected at least 0 and less than 5");
  EXPECT_FALSE(director_.next<GrantResult>()) << "it has left";
}

}  // namespace
}  // namespace troupe::actors
