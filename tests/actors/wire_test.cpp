// Messages between processes: their bytes, and what is refused.

#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "tests/actors/random_messages.h"
#include "tests/actors/some_encoding.h"
#include "tests/actors/wire_proto.h"
#include "wire.pb.h"

namespace troupe::actors {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using wire::News;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// A kind of message: how it is read, and random ones.
struct Kind {
  std::string name;
  std::function<std::string(std::uint64_t seed)> random;
  /// Reads the bytes and writes them again.
  std::function<std::string(std::span<const std::byte>)> again;
  std::unique_ptr<Message> as_protobuf;
};

template <typename... Ts>
void add_all(std::vector<Kind>& kinds, std::variant<Ts...> /*all*/,
             const auto& read, const Message& as_protobuf) {
  using OneOf = std::variant<Ts...>;
  const auto add = [&]<typename T>(std::type_identity<T>) {
    kinds.push_back({type_name<T>(),
                     [](std::uint64_t seed) {
                       return wire::encode(OneOf(random_message<T>(seed)));
                     },
                     [read](std::span<const std::byte> bytes) {
                       return wire::encode(OneOf(read(bytes)));
                     },
                     std::unique_ptr<Message>(as_protobuf.New())});
  };
  (add(std::type_identity<Ts>()), ...);
}

template <typename T>
void add_one(std::vector<Kind>& kinds, const auto& read,
             const Message& as_protobuf) {
  kinds.push_back(
      {type_name<T>(),
       [](std::uint64_t seed) { return wire::encode(random_message<T>(seed)); },
       [read](std::span<const std::byte> bytes) {
         return wire::encode(read(bytes));
       },
       std::unique_ptr<Message>(as_protobuf.New())});
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  add_all(kinds, News(), wire::decode_news, troupe::wire::News());
  add_all(kinds, ClientQuestion(), wire::decode_question,
          troupe::wire::ClientQuestion());
  add_all(kinds, ClientAnswer(), wire::decode_answer,
          troupe::wire::ClientAnswer());
  add_all(kinds, ValueKey(), wire::decode_key, troupe::wire::ValueKey());
  add_one<LinkPace>(kinds, wire::decode_pace, troupe::wire::LinkPace());
  add_one<Applicant>(kinds, wire::decode_applicant, troupe::wire::Applicant());
  add_one<Welcome>(kinds, wire::decode_welcome, troupe::wire::Welcome());
  add_one<PeerGreeting>(kinds, wire::decode_peer_greeting,
                        troupe::wire::PeerGreeting());
  return kinds;
}

/// wire.proto, as the lists of fields have it.
std::string proto_text() {
  ProtoText proto;
  proto.add<JobRecord>();
  proto.add_one_of("News", News());
  proto.add<Applicant>();
  proto.add<Welcome>();
  proto.add<PeerGreeting>();
  proto.add_one_of("ClientQuestion", ClientQuestion());
  proto.add_one_of("ClientAnswer", ClientAnswer());
  proto.add_one_of("ValueKey", ValueKey());
  proto.add<LinkPace>();
  proto.add<ParcelOutline>();
  return "// What Troupe's processes say to each other. Made from the lists "
         "of\n"
         "// fields (actors/job_fields.h, message_fields.h) by\n"
         "//   TROUPE_WRITE_PROTO=1 test_wire --gtest_filter='*WireProto*'\n"
         "// Fields come in their order, each at most once.\n"
         "syntax = \"proto3\";\npackage troupe.wire;\n" +
         proto.text();
}

/// Becomes whatever a member is initialised with, where nothing is evaluated.
struct Anything {
  template <typename T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    std::abort();
  }
};
template <typename T, typename... Members>
constexpr int num_members() {
  if constexpr (requires { T{Members()..., Anything()}; }) {
    return num_members<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}

struct CountFields {
  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    ++count;
    EXPECT_TRUE(members.insert(&value).second)
        << key.name << " names a member that another key has named";
  }
  int count = 0;
  std::set<const void*> members;
};

/// `more`: how many fields the list has more than the struct has members. A
/// list visits the fields of some members one by one, and leaves others out.
template <typename T>
void expect_all_members(int more = 0) {
  CountFields fields;
  T record{};
  visit_fields(fields, record);
  EXPECT_EQ(fields.count, num_members<T>() + more) << type_name<T>();
}

template <typename... Ts>
void expect_all_members_of_each() {
  (expect_all_members<Ts>(), ...);
}

TEST(Fields, NameEveryMember) {
  expect_all_members_of_each<
      ModelRecord, ClassRecord, samplers::ScheduleOptions,
      samplers::ScheduleTable, samplers::NoiseLevel, ValueName,
      samplers::TaskResult, RemoteValue, FreedSlots, Grant, Failure, HeldValue,
      ReadValue, TraceSpan, TasksDone, TasksFailed, InputsGone, TasksReturned,
      GrantResult, WorkerUp, WorkerDown, WorkerBeat, FreeValues, DropRuns,
      Redirect, Recall, DeviceMeans, ProcessMeans, ProcessJoined, AdmitProcess,
      RefuseProcess, CancelSample, DrainProcess, Offer, Join, EndWorker,
      PeerTokens, PeerAddress, JobOver, ProcessReport, DamagedValue,
      EncoderRecord, EncodingRecord, StandBy, TextEncoded, TextFetched,
      EncodingDone, EncodingRefused, NextJob, RunValueKey, ConditionKey,
      LatentsKey, TextKey, ProbeKey, PaceKey, ModelFilesKey, ModelChunksKey,
      ModelChunkKey, LinkPace, Welcome, PeerGreeting, AskStatus, AskStop,
      Granted>();
  // All but has_early_results, which who plans alone reads.
  expect_all_members<samplers::MethodOptions>(-1);
  // All but is_on_chain and is_early_result, which the coordinator alone reads.
  expect_all_members<SampleTask>(num_members<samplers::Task>() - 3);
  expect_all_members<EncodingText>(num_members<models::HiddenState>() - 1);
  expect_all_members<EncodingOffer>(num_members<EncodingRecord>() - 1);
  expect_all_members<Applicant>(num_members<config::WorkerCount>() - 1);
  expect_all_members<JobRecord>(num_members<samplers::Guidance>() - 1);
  // All but clock_error; of a job all but nfe, rounds and reused.
  expect_all_members<Process>(num_members<ProcessWork>() - 2);
  expect_all_members<JobStatus>(num_members<JobProgress>() - 4);
  // All but process, shards, plan, others, exchange, row_seconds, options.
  expect_all_members<WorkerTraits>(-7);
}

TEST(Wire, IsWhatWireProtoSays) {
  if (std::getenv("TROUPE_WRITE_PROTO") != nullptr) {
    std::ofstream(TROUPE_WIRE_PROTO) << proto_text();
  }
  std::stringstream text;
  text << std::ifstream(TROUPE_WIRE_PROTO).rdbuf();
  EXPECT_EQ(text.str(), proto_text());
}

// So protobuf's own parsers and serializers agree with ours, byte for byte.
TEST(Wire, IsProtobufsInEveryByte) {
  for (const Kind& kind : all_kinds()) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      const std::string bytes = kind.random(seed);
      ASSERT_TRUE(kind.as_protobuf->ParseFromString(bytes)) << kind.name;
      ASSERT_EQ(kind.as_protobuf->SerializeAsString(), bytes) << kind.name;
    }
  }
}

TEST(Wire, BringsEveryBitOfEveryMessageBack) {
  for (const Kind& kind : all_kinds()) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const std::string bytes = kind.random(seed);
      ASSERT_EQ(kind.again(bytes_of(bytes)), bytes) << kind.name;
    }
  }
}

/// Calls `change(message, field)` for one message at a time, at any depth.
void for_each_message(Message& message,
                      const std::function<void(Message&)>& visit) {
  visit(message);
  const Reflection& by = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  by.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr) {
      continue;
    }
    if (!field->is_repeated()) {
      for_each_message(*by.MutableMessage(&message, field), visit);
      continue;
    }
    for (int i = 0; i < by.FieldSize(message, field); ++i) {
      for_each_message(*by.MutableRepeatedMessage(&message, field, i), visit);
    }
  }
}

/// Adds a field that every reader has to refuse, to each message in turn.
void expect_refused(const Kind& kind, const std::string& bytes,
                    const std::function<bool(Message&)>& damage) {
  int num_messages = 0;
  ASSERT_TRUE(kind.as_protobuf->ParseFromString(bytes));
  for_each_message(*kind.as_protobuf, [&](Message&) { ++num_messages; });
  for (int target = 0; target < num_messages; ++target) {
    ASSERT_TRUE(kind.as_protobuf->ParseFromString(bytes));
    int next = 0;
    bool is_damaged = false;
    for_each_message(*kind.as_protobuf, [&](Message& message) {
      if (next++ == target) {
        is_damaged = damage(message);
      }
    });
    if (is_damaged) {
      const std::string damaged = kind.as_protobuf->SerializeAsString();
      EXPECT_THROW((void)kind.again(bytes_of(damaged)), Error)
          << kind.name << ", message " << target;
    }
  }
}

TEST(Wire, RefusesAFieldThatItDoesNotKnowAtAnyDepth) {
  for (const Kind& kind : all_kinds()) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      expect_refused(kind, kind.random(seed), [](Message& message) {
        message.GetReflection()->MutableUnknownFields(&message)->AddVarint(1000,
                                                                           1);
        return true;
      });
    }
  }
}

// protobuf's parsers take the last one.
TEST(Wire, RefusesAFieldThatComesTwiceAtAnyDepth) {
  int num_damaged = 0;
  for (const Kind& kind : all_kinds()) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      expect_refused(kind, kind.random(seed), [&](Message& message) {
        const auto& fields = *message.GetDescriptor();
        auto& again = *message.GetReflection()->MutableUnknownFields(&message);
        for (int i = 0; i < fields.field_count(); ++i) {
          const FieldDescriptor& field = *fields.field(i);
          if (!field.is_repeated() && field.message_type() == nullptr &&
              message.GetReflection()->HasField(message, &field) &&
              field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
            again.AddVarint(field.number(), 1);
            ++num_damaged;
            return true;
          }
        }
        return false;
      });
    }
  }
  EXPECT_GT(num_damaged, 100);
}

TEST(Wire, RefusesTwoMessagesInOne) {
  const std::string beat = wire::encode(News(WorkerBeat{1, 2, 3, true}));
  const std::string up = wire::encode(News(WorkerUp{1, 2}));
  EXPECT_THROW((void)wire::decode_news(bytes_of(beat + up)), Error);
  EXPECT_THROW((void)wire::decode_news(bytes_of(beat + beat)), Error);
  EXPECT_THROW((void)wire::decode_news({}), Error);
  EXPECT_THROW((void)wire::decode_news(bytes_of("no message")), Error);
}

TEST(Wire, RefusesAResultWithoutAnOutcomeAndOneWithTwo) {
  troupe::wire::News message;
  auto& result = *message.mutable_grant_result();
  const auto is_read = [&message] {
    try {
      (void)wire::decode_news(bytes_of(message.SerializeAsString()));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_FALSE(is_read());
  auto& outcome = *result.mutable_outcome();
  EXPECT_FALSE(is_read());
  outcome.mutable_inputs_gone();
  EXPECT_TRUE(is_read());
  for (const int other : {1, 2, 3, 4}) {
    auto& again = *outcome.GetReflection()->MutableUnknownFields(&outcome);
    again.AddLengthDelimited(other, {});
    EXPECT_FALSE(is_read()) << other;
    again.Clear();
  }
}

/// Protobuf's zero, never the struct's own default.
TEST(Wire, TakesAnAbsentFieldForZero) {
  Grant grant;
  grant.tasks.resize(1);
  grant.max_rows = 7;
  troupe::wire::News message;
  ASSERT_TRUE(message.ParseFromString(wire::encode(News(grant))));
  message.mutable_grant()->clear_max_rows();  // 1 in a new Grant
  EXPECT_THROW((void)wire::decode_news(bytes_of(message.SerializeAsString())),
               Error);
  const std::string empty;
  EXPECT_EQ(wire::read_job(bytes_of(wire::encode(JobRecord{}))).end, 1U);
  EXPECT_THROW((void)wire::read_job(bytes_of(empty)), Error)
      << "no solver has an empty name";
}

/// The message through the codec.
template <typename T>
T there_and_back(const T& message) {
  return std::get<T>(wire::decode_news(bytes_of(wire::encode(News(message)))));
}

TEST(Wire, CarriesTheCoefficientsOfATask) {
  Grant grant;
  grant.tasks.resize(1);
  samplers::Task& task = grant.tasks[0].task;
  task.op = samplers::Op::sweep;
  task.coefficients = {0.1, -0.0, 1e-310, 4};
  const samplers::Task back = there_and_back(grant).tasks[0].task;
  EXPECT_EQ(back.op, task.op);
  EXPECT_TRUE(std::ranges::equal(back.coefficients, task.coefficients, {},
                                 std::bit_cast<std::uint64_t, double>,
                                 std::bit_cast<std::uint64_t, double>));
}

TEST(Wire, RefusesNumbersThatNobodyHas) {
  EXPECT_THROW((void)there_and_back(WorkerUp{-1, 2}), Error);
  EXPECT_THROW((void)there_and_back(DamagedValue{4, 4}), Error);
  EXPECT_THROW((void)there_and_back(DamagedValue{4, -1}), Error);
  auto grant = random_message<Grant>(1);
  troupe::wire::News message;
  ASSERT_TRUE(message.ParseFromString(wire::encode(News(grant))));
  message.mutable_grant()->mutable_tasks(0)->set_op(samplers::kOpTable.size());
  EXPECT_THROW((void)wire::decode_news(bytes_of(message.SerializeAsString())),
               Error);
  const samplers::OpRow unknown{};
  grant.tasks[0].task.op = samplers::Op(unknown);
  EXPECT_THROW((void)wire::encode(News(grant)), Error) << "it has no number";
  grant = random_message<Grant>(1);
  grant.tasks.clear();
  EXPECT_THROW((void)there_and_back(grant), Error);
  grant = random_message<Grant>(1);
  grant.max_rows = 0;
  EXPECT_THROW((void)there_and_back(grant), Error);
  const auto joined = [](int threads, ProcessMeans means) {
    return there_and_back(
               Join{{{.name = kClass}},
                    {1, {{.threads = threads}}, 0, std::move(means)}})
        .joined;
  };
  const std::vector<DeviceMeans> most(kMostDevices);
  EXPECT_EQ(joined(kMostThreads, {1, 2, most}).means.devices, most);
  EXPECT_THROW((void)joined(kMostThreads + 1, {}), Error);
  EXPECT_THROW(
      (void)joined(1, {1, 2, std::vector<DeviceMeans>(kMostDevices + 1)}),
      Error);
  const auto cut = joined(1, {1, 2, {{{}, std::string(5000, 'n'), 3}}});
  EXPECT_EQ(cut.means.devices.at(0).name.size(), kMostDeviceName);
  Applicant applicant;
  applicant.endpoints.resize(kMostEndpoints + 1);
  EXPECT_THROW((void)wire::decode_applicant(bytes_of(wire::encode(applicant))),
               Error);
  // Their sum decides a method.
  for (const config::WorkerCount workers :
       {config::WorkerCount{1 << 20, 0}, {0, 1 << 20}, {-1, 0}, {0, -1}}) {
    EXPECT_THROW((void)wire::decode_applicant(
                     bytes_of(wire::encode(Applicant{.workers = workers}))),
                 Error);
  }
}

TEST(Wire, RefusesClassesThatAreNone) {
  for (const std::string name :
       {"", "class", "0123456789ABCDEF", "0123456789abcdef0",
        "\xff\xff"
        "456789abcdef"}) {
    Join join;
    join.classes = {{.name = name}};
    EXPECT_THROW((void)there_and_back(join), Error) << name;
    EncodingRecord record = some_encoding();
    record.execution_class = name;
    EXPECT_THROW((void)there_and_back(EncodingOffer{record}), Error) << name;
    EncodingDone done = some_end();
    done.encoder_class = name;
    EXPECT_THROW((void)there_and_back(done), Error) << name;
  }
  Join join;
  join.classes.resize(1, {.name = kClass});
  join.joined.workers.resize(1);
  EXPECT_NO_THROW((void)there_and_back(join));
  join.joined.workers[0].execution_class = 1;
  EXPECT_THROW((void)there_and_back(join), Error);
}

/// An entry takes two bytes on its way, and a hundred in memory.
TEST(Wire, RefusesMoreEntriesThanAnybodySends) {
  EncodingRecord record = some_encoding();
  record.texts.assign(kMostEncodingTexts, record.texts.front());
  EXPECT_EQ(there_and_back(EncodingOffer{record}).record.texts.size(),
            kMostEncodingTexts);
  record.texts.resize(kMostEncodingTexts + 1);
  EXPECT_THROW((void)there_and_back(EncodingOffer{record}), Error);
  Grant grant;
  grant.tasks.resize(wire::kMostNewsEntries);
  EXPECT_EQ(there_and_back(grant).tasks.size(), grant.tasks.size());
  grant.sources.resize(1);
  EXPECT_THROW((void)there_and_back(grant), Error);
}

TEST(Wire, HasRoomForTheStatusOfTheLargestJob) {
  auto status = random_message<JobStatus>(1);
  const std::vector<DeviceMeans> gpus(
      kMostShownDevices + 1,
      {{DeviceKind::cuda, 1 << 30}, std::string(5000, 'd'), ~0ULL});
  const Process longest{
      .name = std::string(5000, 'n'),
      .process = 1 << 30,
      .means = {~0ULL, ~0ULL, gpus},
      .work = {.tasks = ~0ULL, .rows = ~0ULL},
      .execution_classes = std::vector<std::string>(5, kClass),
      .bytes_sent = ~0ULL,
      .bytes_received = ~0ULL,
      .cause = std::string(5000, 'c')};
  std::vector<Process>& nodes = status.progress.processes;
  nodes.assign(kMostClientNodes + 1, longest);
  const auto came = std::get<JobStatus>(
      wire::decode_answer(bytes_of(wire::encode(ClientAnswer(status)))));
  ASSERT_EQ(came.progress.processes.size(), kMostClientNodes);
  const Process& last = came.progress.processes.back();
  EXPECT_EQ(last.name.size(), kMostName);
  EXPECT_EQ(last.execution_classes.size(), kMostShownClasses);
  EXPECT_EQ(last.means.devices.size(), kMostShownDevices);
}

TEST(Wire, LivesThroughChangedAndShortenedBytes) {
  std::mt19937 random(7);
  int num_refused = 0;
  for (const Kind& kind : all_kinds()) {
    for (int i = 0; i < 3000; ++i) {
      std::string bytes = kind.random(random() % 8);
      if (random() % 2 == 0) {
        bytes.resize(random() % (bytes.size() + 1));
      }
      for (std::uint32_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      try {
        (void)kind.again(bytes_of(bytes));
      } catch (const Error& error) {
        ++num_refused;
        EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
      }
    }
  }
  EXPECT_GT(num_refused, 30000);
}

// ---- outlines of values

/// A parcel as it travels in parts.
struct Parts {
  std::string outline;
  std::vector<wire::Elements> elements;
};

Tensor some_tensor() {
  return Tensor::from<float>(std::array{1.0F, 2.0F, 3.0F}, Shape{1, 3});
}

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
  const Parcel parcel = {
      {"boundary", {}}, {"x", some_tensor()}, {"y", some_tensor()}};
  const Parts parts = parts_of(parcel);
  troupe::wire::ParcelOutline message;
  ASSERT_TRUE(message.ParseFromString(parts.outline));
  EXPECT_EQ(message.SerializeAsString(), parts.outline);
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
  const Parts whole = parts_of({{"x", some_tensor()}, {"y", some_tensor()}});
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
  Parts with_stranger = whole;
  with_stranger.outline += "\xC0\x3E\x01";  // field 1000: 1
  expect_refused(with_stranger);
}

TEST(EncodingRecord, ThatNoProcessMakesIsRefused) {
  check(some_encoding());
  const std::vector<std::function<void(EncodingRecord&)>> damages = {
      [](auto& r) { r.model.clear(); },
      [](auto& r) { r.model.assign(257, 'a'); },
      [](auto& r) { r.dtype = DType::f16; },
      [](auto& r) { r.execution_class = "none"; },
      [](auto& r) { r.encoders.clear(); },
      [](auto& r) { r.encoders.resize(9, r.encoders.front()); },
      [](auto& r) { r.encoders.back().name.clear(); },
      [](auto& r) { r.encoders.back().config.resize((1U << 20U) + 1); },
      [](auto& r) { r.texts.clear(); },
      [](auto& r) { r.texts.back().encoder = 2; },
      [](auto& r) { r.texts.back().encoder = -1; },
      [](auto& r) { r.texts.back().ids.clear(); },
      [](auto& r) { r.texts.back().ids.resize(4097); },
      [](auto& r) { r.texts.back().key_length = 2; },
      [](auto& r) { r.texts.back().key_length = -1; },
      [](auto& r) { r.texts.back().wanted.skipped_layers = -1; },
      [](auto& r) { r.texts.back().wanted.skipped_layers = 1 << 20U; }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    EncodingRecord record = some_encoding();
    damages[i](record);
    EXPECT_THROW(check(record), Error) << i;
  }
}

}  // namespace
}  // namespace troupe::actors
