// What processes say to each other beside the news of a job.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "actors/wire/job_codec.h"
#include "actors/wire/news_codec.h"
#include "actors/wire/parcel_codec.h"
#include "kernels/core/error.h"
#include "tests/actors/news_filler.h"
#include "tests/actors/news_trip.h"
#include "tests/actors/random_records.h"

namespace troupe::actors {
namespace {

using wire::News;

TEST(SessionCodec, BringsGreetingsBack) {
  const Applicant applicant{
      "0.9 abc", "host:12", {"tcp://a:1", "ipc:///b"}, {8, 2}};
  const Applicant came =
      wire::decode_applicant(bytes_of(wire::encode(applicant)));
  EXPECT_EQ(came.version, applicant.version);
  EXPECT_EQ(came.name, applicant.name);
  EXPECT_EQ(came.endpoints, applicant.endpoints);
  EXPECT_EQ(came.workers.cpu, 8);
  EXPECT_EQ(came.workers.gpu, 2);
  const Welcome welcome = wire::decode_welcome(
      bytes_of(wire::encode(Welcome{"0.9", 7, true, {"request", "answer"}})));
  EXPECT_EQ(welcome.version, "0.9");
  EXPECT_EQ(welcome.process, 7);
  EXPECT_TRUE(welcome.is_over);
  EXPECT_EQ(welcome.tokens.request, "request");
  EXPECT_EQ(welcome.tokens.answer, "answer");
  const PeerGreeting peer = wire::decode_peer_greeting(
      bytes_of(wire::encode(PeerGreeting{5, "token"})));
  EXPECT_EQ(peer.process, 5);
  EXPECT_EQ(peer.token, "token");
}

TEST(SessionCodec, RefusesAGreetingWithMoreEndpointsThanAnybodyHas) {
  Applicant applicant;
  applicant.endpoints.resize(65);
  EXPECT_THROW((void)wire::decode_applicant(bytes_of(wire::encode(applicant))),
               Error);
}

/// Their sum decides a method.
TEST(SessionCodec, RefusesAGreetingWithMoreWorkersThanAnybodyHas) {
  for (const config::WorkerCount workers :
       {config::WorkerCount{1 << 20, 0}, {0, 1 << 20}, {-1, 0}, {0, -1}}) {
    const Applicant applicant{.version = "0.9", .workers = workers};
    EXPECT_THROW(
        (void)wire::decode_applicant(bytes_of(wire::encode(applicant))), Error);
  }
}

TEST(SessionCodec, BringsAnOfferBack) {
  Offer offer;
  RandomFields fill(3);
  visit_fields(fill, offer.job);
  offer.previews = true;
  const Offer came = there_and_back(offer);
  EXPECT_EQ(hash_of(came.job), hash_of(offer.job));
  EXPECT_EQ(wire::encode(came.job), wire::encode(offer.job));
  EXPECT_TRUE(came.previews);
  EXPECT_FALSE(came.trajectory);
  EXPECT_FALSE(came.trace);
  offer.trace = true;
  EXPECT_TRUE(there_and_back(offer).trace);
}

TEST(SessionCodec, BringsAJoinBack) {
  Join join;
  join.classes.resize(2);
  RandomFields fill(4);
  for (ClassRecord& one : join.classes) {
    visit_fields(fill, one);
    one.name = "0123456789abcdef";
  }
  join.joined.process = 3;
  join.joined.workers.resize(2);
  join.joined.workers[1].execution_class = 1;
  join.joined.workers[1].max_rows = 8;
  const Join came = there_and_back(join);
  ASSERT_EQ(came.classes.size(), 2U);
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_EQ(came.classes[c].name, join.classes[c].name);
    EXPECT_EQ(came.classes[c].dtype, join.classes[c].dtype);
    EXPECT_EQ(came.classes[c].isa, join.classes[c].isa);
    EXPECT_EQ(came.classes[c].tf32, join.classes[c].tf32);
  }
  EXPECT_EQ(came.joined.process, 3);
  ASSERT_EQ(came.joined.workers.size(), 2U);
  EXPECT_EQ(came.joined.workers[1].execution_class, 1);
  EXPECT_EQ(came.joined.workers[1].max_rows, 8);
}

TEST(SessionCodec, RefusesAWorkerOfAClassThatIsNotThere) {
  Join join;
  join.classes.resize(1);
  join.joined.workers.resize(1);
  join.joined.workers[0].execution_class = 1;
  EXPECT_THROW((void)there_and_back(join), Error);
}

TEST(SessionCodec, RefusesDamageThatNobodyOrTheProcessItselfHasDone) {
  EXPECT_THROW((void)there_and_back(DamagedValue{4, 4}), Error);
  EXPECT_THROW((void)there_and_back(DamagedValue{4, -1}), Error);
  EXPECT_THROW((void)there_and_back(DamagedValue{-1, 4}), Error);
}

TEST(SessionCodec, BringsTheRestBack) {
  Filler fill;
  const EndWorker end{fill.small(), 7, fill.failure()};
  EXPECT_EQ(there_and_back(end).worker, end.worker);
  EXPECT_EQ(there_and_back(end).epoch, 7U);
  EXPECT_EQ(there_and_back(end).cause.code, end.cause.code);
  EXPECT_EQ(there_and_back(end).cause.message, end.cause.message);
  const PeerAddress peer{4, {"tcp://a:1"}, {"request", "answer"}};
  EXPECT_EQ(there_and_back(peer).process, 4);
  EXPECT_EQ(there_and_back(peer).endpoints, peer.endpoints);
  EXPECT_EQ(there_and_back(peer).tokens.request, "request");
  EXPECT_EQ(there_and_back(peer).tokens.answer, "answer");
  EXPECT_FALSE(there_and_back(peer).gives_model);
  EXPECT_TRUE(there_and_back(PeerAddress{4, {}, {}, true}).gives_model);
  EXPECT_EQ(there_and_back(DrainProcess{9}).process, 9);
  const ProcessReport report{fill.small(), fill.big(), fill.big()};
  EXPECT_EQ(there_and_back(report).process, report.process);
  EXPECT_EQ(there_and_back(report).bytes_fetched, report.bytes_fetched);
  EXPECT_EQ(there_and_back(report).bytes_given, report.bytes_given);
  EXPECT_FALSE(there_and_back(report).gives_model);
  EXPECT_TRUE(there_and_back(ProcessReport{1, 2, 3, true}).gives_model);
  const DamagedValue damaged = there_and_back(DamagedValue{4, 9});
  EXPECT_EQ(damaged.process, 4);
  EXPECT_EQ(damaged.holder, 9);
  EXPECT_FALSE(there_and_back(JobOver{}).cause);
  const JobOver over{fill.failure()};
  EXPECT_EQ(there_and_back(over).cause.value().message, over.cause->message);
}

/// A parcel as it travels in parts.
struct Parts {
  std::string outline;
  std::vector<wire::Elements> elements;
};

Parts parts_of(const Parcel& parcel) {
  Parts parts{wire::encode_outline(parcel), {}};
  for (const NamedTensor& named : parcel) {
    if (!named.tensor.empty()) {
      parts.elements.push_back(
          {named.tensor.owner(), named.tensor.num_bytes()});
    }
  }
  return parts;
}

TEST(Outline, BringsAParcelBackWithoutACopy) {
  Filler fill;
  const Parcel parcel = {
      {"boundary", {}}, {"x", fill.tensor()}, {"y", fill.tensor()}};
  const Parts parts = parts_of(parcel);
  const Parcel came =
      wire::decode_outline(bytes_of(parts.outline), parts.elements);
  ASSERT_EQ(came.size(), 3U);
  EXPECT_TRUE(came[0].tensor.empty());
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(came[i].name, parcel[i].name);
    EXPECT_EQ(came[i].tensor.owner(), parcel[i].tensor.owner());
    EXPECT_EQ(came[i].tensor.shape(), parcel[i].tensor.shape());
  }
}

TEST(Outline, RefusesElementsThatAreNotThoseOfItsTensors) {
  Filler fill;
  const Parts whole = parts_of({{"x", fill.tensor()}, {"y", fill.tensor()}});
  const auto expect_refused = [](const Parts& parts) {
    EXPECT_THROW(
        (void)wire::decode_outline(bytes_of(parts.outline), parts.elements),
        Error);
  };
  Parts fewer = whole;
  fewer.elements.pop_back();
  expect_refused(fewer);
  Parts more = whole;
  more.elements.push_back(more.elements.front());
  expect_refused(more);
  Parts shorter = whole;
  shorter.elements.back().num_bytes -= 4;
  expect_refused(shorter);
  Parts with_data = whole;
  // Parcel.tensors[0].data
  with_data.outline = std::string("\x0A\x03\x22\x01\x00", 5);
  expect_refused(with_data);
}

TEST(Outline, RefusesAFieldThatItDoesNotKnow) {
  const std::string field = "\xC0\x3E\x01";  // field 1000: 1
  const std::string in_tensor = std::string("\x0A\x03") + field;
  for (const std::string& outline : {field, in_tensor}) {
    try {
      (void)wire::decode_outline(bytes_of(outline), {});
      ADD_FAILURE() << "a field passed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("does not know"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(SessionCodec, RefusesAClassWhoseNameIsNone) {
  for (const std::string name :
       {"", "class", "0123456789ABCDEF", "0123456789abcdef0",
        "\xff\xff"
        "456789abcdef"}) {
    Join join;
    join.classes = {{.name = name}};
    EXPECT_THROW((void)there_and_back(join), Error) << name;
  }
}

TEST(SessionCodec, LivesThroughChangedAndShortenedBytes) {
  Offer offer;
  RandomFields fill(5);
  visit_fields(fill, offer.job);
  Join join;
  join.classes.resize(2, {.name = "0123456789abcdef"});
  join.joined.workers.resize(2);
  const Parts parts = parts_of({{"x", Filler().tensor()}});
  const std::string messages[] = {
      wire::encode(News(offer)),
      wire::encode(News(join)),
      wire::encode(Applicant{"v", "n", {"a", "b"}}),
      parts.outline,
      wire::encode(Welcome{"v", 1, false, {"k", "a"}}),
      wire::encode(PeerGreeting{1, "t"}),
      wire::encode(News(PeerAddress{1, {"a", "b"}, {"k", "a"}})),
      wire::encode(News(DamagedValue{1, 2}))};
  std::mt19937 random(11);
  std::size_t num_refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t which = random() % std::size(messages);
    std::string bytes = messages[which];
    if (random() % 2 == 0) {
      bytes.resize(random() % bytes.size());
    }
    for (std::uint32_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      if (which == 2) {
        (void)wire::decode_applicant(bytes_of(bytes));
      } else if (which == 3) {
        (void)wire::decode_outline(bytes_of(bytes), parts.elements);
      } else if (which == 4) {
        (void)wire::decode_welcome(bytes_of(bytes));
      } else if (which == 5) {
        (void)wire::decode_peer_greeting(bytes_of(bytes));
      } else {
        (void)wire::decode_news(bytes_of(bytes));
      }
    } catch (const Error& error) {
      ++num_refused;
      EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
    }
  }
  EXPECT_GT(num_refused, 5000U);
}

}  // namespace
}  // namespace troupe::actors
