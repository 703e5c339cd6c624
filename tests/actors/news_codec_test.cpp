#include "actors/wire/news_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "tests/actors/news_filler.h"
#include "tests/actors/news_trip.h"

namespace troupe::actors {
namespace {

using wire::News;

void expect_same(const samplers::Task& a, const samplers::Task& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.version, b.version);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.branch, b.branch);
  EXPECT_EQ(a.segment, b.segment);
  EXPECT_EQ(a.part, b.part);
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.to, b.to);
  EXPECT_EQ(a.timestep_call, b.timestep_call);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.outputs, b.outputs);
}

void expect_same(const Failure& a, const Failure& b) {
  EXPECT_EQ(a.code, b.code);
  EXPECT_EQ(a.place, b.place);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.hint, b.hint);
}

/// For messages to or from one incarnation of a worker.
template <typename Message>
void expect_same_worker(const Message& a, const Message& b) {
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.epoch, b.epoch);
}

TEST(NewsCodec, BringsAGrantBack) {
  Filler fill;
  const Grant sent = fill.grant();
  const auto got = there_and_back(sent);
  expect_same_worker(got, sent);
  EXPECT_EQ(got.max_rows, sent.max_rows);
  EXPECT_EQ(got.coming_inputs, sent.coming_inputs);
  ASSERT_EQ(got.tasks.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got.tasks[i].sample_index, sent.tasks[i].sample_index);
    EXPECT_EQ(got.tasks[i].run, sent.tasks[i].run);
    EXPECT_EQ(got.tasks[i].grant, sent.tasks[i].grant);
    EXPECT_TRUE(got.tasks[i].alone);
    expect_same(got.tasks[i].task, sent.tasks[i].task);
  }
  EXPECT_EQ(got.remote_inputs, sent.remote_inputs);
  ASSERT_EQ(got.frees.size(), 1U);
  EXPECT_EQ(got.frees[0].sample_index, sent.frees[0].sample_index);
  EXPECT_EQ(got.frees[0].run, sent.frees[0].run);
  EXPECT_EQ(got.frees[0].slots, sent.frees[0].slots);
}

TEST(NewsCodec, BringsAResultBack) {
  Filler fill;
  const GrantResult sent = fill.result();
  const auto got = there_and_back(sent);
  EXPECT_EQ(got.grants, sent.grants);
  expect_same_worker(got, sent);
  ASSERT_EQ(got.results.size(), 1U);
  EXPECT_EQ(got.results[0].id, sent.results[0].id);
  EXPECT_EQ(got.results[0].version, sent.results[0].version);
  ASSERT_EQ(got.results[0].scalars.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(got.results[0].scalars[i]),
              std::bit_cast<std::uint64_t>(sent.results[0].scalars[i]));
  }
  ASSERT_TRUE(got.failure);
  expect_same(*got.failure, *sent.failure);
  EXPECT_EQ(got.gone, sent.gone);
  ASSERT_EQ(got.held.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(got.held[i].name, sent.held[i].name);
    EXPECT_EQ(got.held[i].memory, sent.held[i].memory);
  }
  EXPECT_TRUE(got.failed_elsewhere);
  EXPECT_EQ(got.previews.at(0).sample_index, sent.previews[0].sample_index);
  EXPECT_EQ(got.previews[0].call, sent.previews[0].call);
  EXPECT_TRUE(bytes_equal(got.previews[0].latents, sent.previews[0].latents));
  EXPECT_EQ(got.points.at(0).sample_index, sent.points[0].sample_index);
  EXPECT_EQ(got.points[0].calls, sent.points[0].calls);
  EXPECT_TRUE(bytes_equal(got.points[0].latents, sent.points[0].latents));
  EXPECT_EQ(got.ticks, sent.ticks);
  EXPECT_EQ(got.span.worker, sent.span.worker);
  EXPECT_EQ(got.span.process, sent.span.process);
  EXPECT_EQ(got.span.device, sent.span.device);
  EXPECT_EQ(got.span.op, sent.span.op);
  EXPECT_EQ(got.span.sample_index, sent.span.sample_index);
  EXPECT_EQ(got.span.rows, sent.span.rows);
  EXPECT_EQ(got.span.step, sent.span.step);
  EXPECT_EQ(got.span.segment, sent.span.segment);
  EXPECT_EQ(got.span.start, sent.span.start);
  EXPECT_EQ(got.span.duration, sent.span.duration);
  EXPECT_EQ(got.made, sent.made);
  EXPECT_EQ(got.reads, sent.reads);
  EXPECT_EQ(there_and_back(GrantResult{}).span.device, Device{});
}

TEST(NewsCodec, BringsTheSmallMessagesBack) {
  Filler fill;
  const WorkerUp up{fill.small(), fill.word()};
  const auto got_up = there_and_back(up);
  expect_same_worker(got_up, up);
  const WorkerDown down{fill.small(), fill.word(), fill.failure()};
  const auto got_down = there_and_back(down);
  expect_same_worker(got_down, down);
  expect_same(got_down.gone.value(), *down.gone);
  EXPECT_FALSE(there_and_back(WorkerDown{1, 2, {}}).gone);
  const WorkerBeat beat{fill.small(), fill.word(), fill.big(), true};
  const auto got_beat = there_and_back(beat);
  expect_same_worker(got_beat, beat);
  EXPECT_EQ(got_beat.ticks, beat.ticks);
  EXPECT_TRUE(got_beat.waits);
  const FreeValues free{fill.small(), fill.grant().frees};
  const auto got_free = there_and_back(free);
  EXPECT_EQ(got_free.process, free.process);
  EXPECT_EQ(got_free.frees.at(0).slots, free.frees[0].slots);
  const DropRuns drop{fill.small(), fill.big(), fill.word(), true};
  const auto got_drop = there_and_back(drop);
  EXPECT_EQ(got_drop.process, drop.process);
  EXPECT_EQ(got_drop.sample_index, drop.sample_index);
  EXPECT_EQ(got_drop.last_run, drop.last_run);
  const Recall recall{fill.small(), fill.word(), {fill.big(), fill.big()}};
  const auto got_recall = there_and_back(recall);
  expect_same_worker(got_recall, recall);
  EXPECT_EQ(got_recall.grants, recall.grants);
  const CancelSample cancel{fill.big()};
  EXPECT_EQ(there_and_back(cancel).sample_index, cancel.sample_index);
  GrantResult back;
  back.returned = true;
  EXPECT_TRUE(there_and_back(back).returned);
  EXPECT_FALSE(there_and_back(GrantResult{}).returned);
  EXPECT_TRUE(got_drop.all_answered);
  EXPECT_FALSE(there_and_back(DropRuns{1, 2, {}}).all_answered);
  EXPECT_FALSE(there_and_back(DropRuns{1, 2, {}}).last_run);
  EXPECT_EQ(there_and_back(DropRuns{1, 2, 0U}).last_run, 0U);
}

TEST(NewsCodec, BringsTheMessagesOfAProcessThatJoinsBack) {
  Filler fill;
  const ProcessJoined joined{fill.small(),
                             {{fill.small(), {}, fill.small()},
                              {fill.small(),
                               {DeviceKind::cuda, fill.small()},
                               fill.small(),
                               0,
                               std::uint64_t{1} << 36U,
                               17}},
                             std::uint64_t{1} << 40U,
                             {fill.big(),
                              fill.big(),
                              {{}, {{DeviceKind::cuda, 7}, "GPU", fill.big()}},
                              fill.big()}};
  const auto got = there_and_back(joined);
  EXPECT_EQ(got.process, joined.process);
  EXPECT_EQ(got.value_budget, joined.value_budget);
  EXPECT_EQ(got.means, joined.means);
  ASSERT_EQ(got.workers.size(), 2U);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(got.workers[w].execution_class,
              joined.workers[w].execution_class);
    EXPECT_EQ(got.workers[w].device, joined.workers[w].device);
    EXPECT_EQ(got.workers[w].max_rows, joined.workers[w].max_rows);
    EXPECT_EQ(got.workers[w].value_budget, joined.workers[w].value_budget);
    EXPECT_EQ(got.workers[w].threads, joined.workers[w].threads);
  }
  const AdmitProcess admit{fill.small(), fill.small(), fill.small()};
  const auto got_admit = there_and_back(admit);
  EXPECT_EQ(got_admit.process, admit.process);
  EXPECT_EQ(got_admit.first_worker, admit.first_worker);
  EXPECT_EQ(got_admit.num_workers, admit.num_workers);
  const RefuseProcess refuse{fill.small(), fill.failure()};
  const auto got_refuse = there_and_back(refuse);
  EXPECT_EQ(got_refuse.process, refuse.process);
  expect_same(got_refuse.cause, refuse.cause);
  EXPECT_THROW((void)there_and_back(ProcessJoined{-1, {}}), Error);
  EXPECT_THROW((void)there_and_back(ProcessJoined{1, {{.max_rows = -1}}}),
               Error);
}

TEST(NewsCodec, RefusesMeansThatNoMachineHas) {
  const auto trip = [](int threads, ProcessMeans means) {
    return there_and_back(
        ProcessJoined{1, {{.threads = threads}}, 0, std::move(means)});
  };
  const std::vector<DeviceMeans> most(kMostDevices);
  EXPECT_EQ(trip(kMostThreads, {1, 2, most}).means.devices, most);
  EXPECT_THROW((void)trip(-1, {}), Error);
  EXPECT_THROW((void)trip(kMostThreads + 1, {}), Error);
  EXPECT_THROW(
      (void)trip(1, {1, 2, std::vector<DeviceMeans>(kMostDevices + 1)}), Error);
  EXPECT_THROW((void)trip(1, {1, 2, {{{DeviceKind::cuda, -1}, "GPU", 3}}}),
               Error);
  const auto cut = trip(1, {1, 2, {{{}, std::string(5000, 'n'), 3}}});
  EXPECT_EQ(cut.means.devices.at(0).name.size(), 64U);
}

TEST(NewsCodec, BringsEveryFailureBack) {
  for (int code = 1; code <= static_cast<int>(Errc::device_full); ++code) {
    const WorkerDown down{0, 1, Failure{static_cast<Errc>(code), "", "", ""}};
    EXPECT_EQ(there_and_back(down).gone->code, static_cast<Errc>(code));
  }
}

template <typename Decode>
void expect_refused_or_read(const std::string& bytes, const Decode& decode) {
  try {
    (void)decode(bytes_of(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file) << error.what();
  }
}

TEST(NewsCodec, RefusesWhatIsNone) {
  EXPECT_THROW((void)wire::decode_news({}), Error);
  EXPECT_THROW((void)wire::decode_news(bytes_of("no message")), Error);
  Grant grant = Filler().grant();
  grant.worker = -1;
  EXPECT_THROW((void)there_and_back(grant), Error);
  grant = Filler().grant();
  grant.tasks[0].task.op = static_cast<samplers::Op>(9);
  EXPECT_THROW((void)there_and_back(grant), Error);
  grant = Filler().grant();
  grant.tasks.clear();
  EXPECT_THROW((void)there_and_back(grant), Error);
  grant = Filler().grant();
  grant.max_rows = 0;
  EXPECT_THROW((void)there_and_back(grant), Error);
}

/// The first field of this number in the record, which has a length.
struct Place {
  std::size_t length_at = 0;
  std::size_t begin = 0;
  std::size_t size = 0;
};

std::uint64_t varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.at(at++));
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) {
      return value;
    }
  }
}

std::string varint_of(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80U; value >>= 7U) {
    bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  return bytes += static_cast<char>(value);
}

Place place_of(const std::string& record, std::uint64_t number) {
  constexpr std::size_t kFixed[] = {0, 8, 0, 0, 0, 4};
  for (std::size_t at = 0; at < record.size();) {
    const std::uint64_t tag = varint(record, at);
    Place place{at, at, 0};
    if ((tag & 7U) == 0) {
      (void)varint(record, at);
    } else if ((tag & 7U) == 2) {
      place.size = varint(record, at);
      place.begin = at;
      at += place.size;
    } else {
      at += kFixed[tag & 7U];
    }
    if (tag >> 3U == number) {
      return place;
    }
  }
  ADD_FAILURE() << "no field " << number;
  return {};
}

/// The record with one more field, of a number that nothing has, in the message
/// at the end of this path of field numbers.
std::string with_stranger(std::string record,
                          std::span<const std::uint64_t> path) {
  if (path.empty()) {
    return record += "\xC0\x3E\x01";  // field 1000: 1
  }
  const Place place = place_of(record, path[0]);
  const std::string inner =
      with_stranger(record.substr(place.begin, place.size), path.subspan(1));
  return record.replace(place.length_at,
                        place.begin + place.size - place.length_at,
                        varint_of(inner.size()) + inner);
}

TEST(NewsCodec, RefusesAFieldThatItDoesNotKnowAtAnyDepth) {
  Filler fill;
  using Path = std::vector<std::uint64_t>;
  const auto expect_refused = [](const std::string& record, const Path& path) {
    try {
      (void)wire::decode_news(bytes_of(with_stranger(record, path)));
      ADD_FAILURE() << "a field at depth " << path.size() << " passed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("does not know"),
                std::string::npos)
          << error.what();
    }
  };
  const std::string grant = wire::encode(News(fill.grant()));
  for (const Path& path : {Path{}, Path{1}, Path{1, 3}, Path{1, 5},
                           Path{1, 5, 1}, Path{1, 6}, Path{1, 7}}) {
    expect_refused(grant, path);
  }
  const std::string result = wire::encode(News(fill.result()));
  for (const Path& path :
       {Path{2}, Path{2, 4}, Path{2, 5}, Path{2, 6}, Path{2, 6, 1}, Path{2, 7},
        Path{2, 9}, Path{2, 9, 3}, Path{2, 10}, Path{2, 12}}) {
    expect_refused(result, path);
  }
}

TEST(NewsCodec, RefusesMoreEntriesThanAnybodySends) {
  // Empty tasks: two bytes each, a hundred in memory.
  std::string tasks;
  for (int i = 0; i < 300000; ++i) {
    tasks += std::string("\x1A\x00", 2);
  }
  std::string length;
  for (std::size_t left = tasks.size(); left > 0; left >>= 7U) {
    length += static_cast<char>((left & 0x7FU) | (left > 0x7FU ? 0x80U : 0U));
  }
  EXPECT_THROW((void)wire::decode_news(bytes_of("\x0A" + length + tasks)),
               Error);
}

TEST(NewsCodec, LivesThroughChangedAndShortenedBytes) {
  Filler fill;
  std::mt19937 random(7);
  const std::string messages[] = {wire::encode(News(fill.grant())),
                                  wire::encode(News(fill.result()))};
  for (int i = 0; i < 30000; ++i) {
    std::string bytes = messages[random() % 2];
    if (random() % 2 == 0) {
      bytes.resize(random() % bytes.size());
    }
    for (std::uint32_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    expect_refused_or_read(bytes, wire::decode_news);
  }
}

}  // namespace
}  // namespace troupe::actors
