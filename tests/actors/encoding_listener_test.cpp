// Who encodes the prompts of a job, and what is taken of it.

#include "actors/remote/encoding_listener.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/remote/company_member.h"
#include "actors/remote/link_values.h"
#include "kernels/core/error.h"
#include "tests/actors/linked_company.h"
#include "tests/actors/on_a_switchboard.h"
#include "tests/actors/some_encoding.h"

namespace troupe::actors {
namespace {

const std::vector<EncoderShape> kShapes = {{2, 0}, {2, 3}};

net::Fetched fetched(const models::EncodedText& text) {
  return {net::FetchStatus::found,
          to_link({{"hidden", text.hidden}, {"pooled", text.pooled}}),
          {}};
}

std::size_t bytes_of(const net::Fetched& fetched) {
  std::size_t bytes = 0;
  for (const net::SharedBytes& part : fetched.value) {
    bytes += part.size;
  }
  return bytes;
}

/// Throws also where the answer does not end.
EncodedElsewhere answer_of(const std::vector<SomeText>& texts,
                           const EncodingDone& done = some_end()) {
  const EncodingRecord record = some_encoding();
  EncodingAnswer answer(record, kShapes);
  for (const SomeText& text : texts) {
    (void)answer.name({text.text});
    answer.take(text.text, fetched(text.encoded));
  }
  answer.end(done);
  return answer.finish().value();
}

TEST(EncodingAnswer, IsWhatTheRecordAsksFor) {
  const EncodedElsewhere its = answer_of(some_texts());
  EXPECT_EQ(its.encoded.size(), 4U);
  EXPECT_FALSE(its.encoded.has(1)) << "it is kept";
  EXPECT_EQ(its.encoder_class, some_end().encoder_class);
  EXPECT_EQ(its.device, some_end().device);
  EXPECT_EQ(its.encoded.weights_xxh3, some_end().weights_xxh3);
}

TEST(EncodingAnswer, HasNothingThatNobodyAskedFor) {
  const std::vector<std::function<void(SomeText&)>> damages = {
      [](auto& t) { t.text = 4; },
      [](auto& t) { t.text = std::numeric_limits<std::uint64_t>::max(); },
      [](auto& t) { t.encoded.hidden = {}; },
      [](auto& t) {
        t.encoded.hidden = zeros_of({2, 2});
      },
      [](auto& t) {
        t.encoded.hidden = zeros_of({3, 3});
      },
      [](auto& t) { t.encoded.hidden = zeros_of({6}); },
      [](auto& t) {
        t.encoded.hidden = Tensor({3, 2}, DType::i64);
      },
      [](auto& t) { t.encoded.pooled = zeros_of({3}); },
      [](auto& t) { t.encoded.hidden.template data<float>()[5] = NAN; },
      [](auto& t) { t.encoded.hidden.template data<float>()[0] = -INFINITY; }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    std::vector<SomeText> texts = some_texts();
    damages[i](texts.front());
    EXPECT_THROW((void)answer_of(texts), Error) << i;
  }
  std::vector<SomeText> twice = some_texts();
  twice.push_back(twice.front());
  EXPECT_THROW((void)answer_of(twice), Error);
  std::vector<SomeText> without = some_texts();
  without.back().encoded.pooled = {};
  EXPECT_THROW((void)answer_of(without), Error);
}

TEST(EncodingAnswer, IsWhole) {
  std::vector<SomeText> fewer = some_texts();
  fewer.pop_back();
  EXPECT_THROW((void)answer_of(fewer), Error);
  for (const std::vector<std::uint64_t>& weights :
       {std::vector<std::uint64_t>{}, {1}, {1, 2, 3}, {0, 1}}) {
    EncodingDone done = some_end();
    done.weights_xxh3 = weights;
    EXPECT_THROW((void)answer_of(some_texts(), done), Error);
  }
}

/// Texts of another class are not mixed with kept texts.
TEST(EncodingAnswer, OfAnotherClassHasWhatIsKeptToo) {
  EncodingDone done = some_end();
  done.execution_class = "00000000000000aa";
  EXPECT_THROW((void)answer_of(some_texts(), done), Error);
  const EncodedElsewhere its = answer_of(some_texts(/*all=*/true), done);
  EXPECT_TRUE(its.encoded.has(1));
}

TEST(EncodingAnswer, EndsWithTheLastTextThatComes) {
  const EncodingRecord record = some_encoding();
  EncodingAnswer answer(record, kShapes);
  for (const SomeText& text : some_texts()) {
    EXPECT_GE(answer.name({text.text}), bytes_of(fetched(text.encoded)));
  }
  answer.end(some_end());
  for (const SomeText& text : some_texts()) {
    EXPECT_FALSE(answer.finish());
    answer.take(text.text, fetched(text.encoded));
  }
  EXPECT_TRUE(answer.finish());
}

TEST(EncodingAnswer, RefusesATextThatDoesNotComeOrIsNoPair) {
  const EncodingRecord record = some_encoding();
  EncodingAnswer answer(record, kShapes);
  (void)answer.name({0});
  EXPECT_THROW((void)answer.name({0}), Error) << "it has not come yet";
  const net::Fetched whole = fetched(some_texts().front().encoded);
  for (const net::Value& value :
       {net::Value(), net::Value{whole.value.back()},
        to_link({{"hidden", some_texts().front().encoded.hidden}})}) {
    EXPECT_THROW(answer.take(0, {net::FetchStatus::found, value, {}}), Error);
  }
  try {
    answer.take(0, {net::FetchStatus::gone, {}, "it is gone"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "it is gone");
  }
}

/// A process whose values do not leave it.
class HubThatHoldsBack final : public HubBefore {
 public:
  HubThatHoldsBack(std::unique_ptr<net::Hub> hub, std::atomic<int>& num_asked)
      : HubBefore(std::move(hub)), num_asked_(num_asked) {}
  void give(net::WantId /*want*/, net::Value /*value*/) override {
    ++num_asked_;
  }

 private:
  std::atomic<int>& num_asked_;
};

class AnEncodingListener : public OnASwitchboard {
 protected:
  /// The record, or why there is none.
  static EncodingRecord asked(CompanyMember& member) {
    const auto offered = member.wait_for_offer({});
    EXPECT_TRUE(offered);
    return offered ? std::get<EncodingOffer>(*offered).record
                   : EncodingRecord{};
  }
  static void await(const auto& is_so) {
    const TimePoint deadline = SteadyClock().now() + std::chrono::minutes(1);
    while (!is_so() && SteadyClock().now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(is_so());
  }
  static void encode(CompanyMember& member) {
    for (const SomeText& text : some_texts()) {
      member.give_text(text.text, text.encoded);
    }
    member.answer(some_end());
  }
  std::future<EncodedElsewhere> waiting() {
    return std::async(std::launch::async,
                      [this] { return listener_->wait({}); });
  }
  void listen(Duration silence = std::chrono::minutes(1)) {
    listener_ = std::make_unique<EncodingListener>(
        EncodingListenerSpec{.version = "test",
                             .hub = {.role = "coordinator"},
                             .endpoint = "inproc://job",
                             .silence = silence,
                             .make_hub = hub_maker()});
  }
  void open(Duration silence = std::chrono::minutes(1)) {
    listen(silence);
    listener_->ask_for(some_encoding(), kShapes);
  }

  std::unique_ptr<EncodingListener> listener_;
};

TEST_F(AnEncodingListener, AsksTheFirstProcessAndLetsAllDialAgain) {
  open();
  auto result = waiting();
  auto first = member();
  EXPECT_EQ(asked(*first).texts.size(), 4U);
  EXPECT_FALSE(listener_->waits());
  auto second = member();
  await([&] { return second->stands_by(); });
  encode(*first);
  EXPECT_EQ(result.get().encoded.size(), 4U);
  EXPECT_EQ(listener_->processes().size(), 2U);
  std::jthread farewell([this] { listener_->dismiss(); });
  for (auto* const each : {&first, &second}) {
    EXPECT_FALSE((*each)->wait_for_offer({}));
    EXPECT_EQ((*each)->end().value().kind, MemberEnd::Kind::next);
    each->reset();
  }
  farewell.join();
  const auto late = member();
  EXPECT_FALSE(late->wait_for_offer({}));
  EXPECT_EQ(late->end().value().kind, MemberEnd::Kind::next);
}

TEST_F(AnEncodingListener, AsksTheNextWhereOneDeclinesIsLostOrLies) {
  open();
  auto result = waiting();
  const auto declines = member();
  (void)asked(*declines);
  auto is_lost = member();
  declines->answer(
      EncodingRefused{{Errc::not_found, "model", "no encoder", {}}});
  (void)asked(*is_lost);
  const auto lies = member();
  is_lost.reset();
  (void)asked(*lies);
  const auto last = member();
  lies->give_text(0, some_vectors(7, 0));
  (void)asked(*last);
  encode(*last);
  EXPECT_EQ(result.get().encoded.size(), 4U);
  EXPECT_THROW((void)lies->wait_for_offer({}), Error) << "it is left";
  EXPECT_EQ(listener_->processes().size(), 2U);
}

TEST_F(AnEncodingListener, SaysWhoseTextIsWrong) {
  open();
  auto result = waiting();
  models::EncodedText with_nan = some_vectors(3, 0);
  with_nan.hidden.data<float>()[5] = NAN;
  testing::internal::CaptureStderr();
  for (const models::EncodedText& wrong : {some_vectors(2, 0), with_nan}) {
    const auto lies = member();
    (void)asked(*lies);
    lies->give_text(0, wrong);
    EXPECT_THROW((void)lies->wait_for_offer({}), Error) << "it is left";
  }
  const auto last = member();
  (void)asked(*last);
  const std::string log = testing::internal::GetCapturedStderr();
  for (const char* says :
       {"process 1 (test) does not encode the prompts, they wait for another "
        "worker: [encoded prompt] its vectors have another shape",
        "process 2 (test) does not encode the prompts, they wait for another "
        "worker: [encoded prompt] a NaN"}) {
    EXPECT_NE(log.find(says), std::string::npos) << log;
  }
  encode(*last);
  EXPECT_EQ(result.get().encoded.size(), 4U);
}

TEST_F(AnEncodingListener, AsksTheNextWhereOneIsLostBeforeItsTextsHaveCome) {
  open();
  auto result = waiting();
  std::atomic<int> num_asked = 0;
  auto is_lost = member("test", {}, [&](std::unique_ptr<net::Hub> hub) {
    return std::make_unique<HubThatHoldsBack>(std::move(hub), num_asked);
  });
  (void)asked(*is_lost);
  encode(*is_lost);
  await([&] { return num_asked == 3; });
  const auto last = member();
  is_lost.reset();
  (void)asked(*last);
  encode(*last);
  EXPECT_EQ(result.get().encoded.size(), 4U);
}

TEST_F(AnEncodingListener, AsksTheNextWhereNothingComes) {
  open(std::chrono::milliseconds(100));
  auto result = waiting();
  const auto silent = member();
  (void)asked(*silent);
  std::vector<std::unique_ptr<CompanyMember>> others;
  do {  // on a busy machine one may be silent that is not meant to be
    others.push_back(member());
    (void)asked(*others.back());
    silent->give_text(0, some_vectors(3, 0));  // too late, and no harm
    encode(*others.back());
  } while (result.wait_for(std::chrono::seconds(2)) !=
           std::future_status::ready);
  EXPECT_EQ(result.get().encoded.size(), 4U);
}

TEST_F(AnEncodingListener, AsksTheNextWhereTheAnswerIsNotUsed) {
  open();
  auto result = waiting();
  const auto first = member();
  (void)asked(*first);
  encode(*first);
  (void)result.get();
  listener_->refuse("other weights");
  result = waiting();
  const auto second = member();
  (void)asked(*second);
  encode(*second);
  EXPECT_EQ(result.get().encoded.size(), 4U);
}

TEST_F(AnEncodingListener, LeavesWhoWasNotAsked) {
  open();
  const auto first = member();
  (void)asked(*first);
  const auto second = member();
  await([&] { return second->stands_by(); });
  second->answer(some_end());
  EXPECT_THROW((void)second->wait_for_offer({}), Error);
  EXPECT_FALSE(listener_->waits());
}

TEST_F(AnEncodingListener, CountsWhoIsHereUntilThereIsSomethingToEncode) {
  listen();
  EXPECT_EQ(listener_->await_other_number(0, SteadyClock().now(), {}), 0U);
  auto first = member("test", {2, 1});
  EXPECT_EQ(listener_->await_other_number(0, {}, {}), 1U);
  const auto second = member("test", {3, 0});
  EXPECT_EQ(listener_->await_other_number(1, {}, {}), 2U);
  EXPECT_EQ(listener_->workers().cpu, 5);
  EXPECT_EQ(listener_->workers().gpu, 1);
  await([&] { return second->stands_by(); });
  EXPECT_FALSE(listener_->waits());
  first.reset();
  EXPECT_EQ(listener_->await_other_number(2, {}, {}), 1U);
  EXPECT_EQ(listener_->workers().cpu, 3);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(listener_->await_other_number(1, {}, stop.get_token()), 1U);
  auto result = waiting();
  listener_->ask_for(some_encoding(), kShapes);
  (void)asked(*second);
  encode(*second);
  EXPECT_EQ(result.get().encoded.size(), 4U);
}

TEST_F(AnEncodingListener, RefusesAnotherVersion) {
  open();
  const auto other = member("older");
  EXPECT_THROW((void)other->wait_for_offer({}), Error);
}

TEST_F(AnEncodingListener, EndsTheJobForThoseWhoAreHere) {
  open();
  auto one = member();
  (void)asked(*one);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW((void)listener_->wait(stop.get_token()), Error);
  std::jthread end([this] { listener_.reset(); });
  EXPECT_FALSE(one->wait_for_offer({}));
  EXPECT_EQ(one->end().value().kind, MemberEnd::Kind::over);
  await([&] { return one->ended().stop_requested(); });
  one.reset();
}

}  // namespace
}  // namespace troupe::actors
