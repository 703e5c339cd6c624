#include "actors/wire/codec.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "actors/job_classes.h"
#include "actors/wire/record_codec.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {

namespace {

/// The most bytes of a greeting's record.
constexpr std::size_t kMostGreeting = std::size_t{64} << 10U;

template <typename T>
std::string written(const T& record, std::size_t most, const char* what,
                    const char* hint = "") {
  std::string bytes = RecordWriter::write(record);
  require(bytes.size() <= most, Errc::invalid_argument, what,
          "too large: got " + std::to_string(bytes.size()) +
              " bytes, expected at most " + std::to_string(most),
          hint);
  return bytes;
}

std::span<const std::byte> limited(std::span<const std::byte> bytes,
                                   std::size_t most) {
  if (bytes.size() > most) {
    refuse("got " + std::to_string(bytes.size()) + " bytes, expected at most " +
           std::to_string(most));
  }
  return bytes;
}

// ---- what bounds do not say

void expect_class_name(const std::string& name) {
  if (!is_class_name(name)) {
    refuse("a class whose name is not 16 hexadecimal digits");
  }
}

template <typename T>
void expect_whole(const T& /*message*/) {}

void expect_whole(const Grant& grant) {
  if (grant.tasks.empty() || grant.max_rows == 0) {
    refuse("a grant without tasks, or for passes without rows");
  }
}

void expect_whole(const Join& join) {
  for (const ClassRecord& one : join.classes) {
    expect_class_name(one.name);
  }
  for (const WorkerTraits& worker : join.joined.workers) {
    if (static_cast<std::size_t>(worker.execution_class) >=
        join.classes.size()) {
      refuse("a worker of class " + std::to_string(worker.execution_class) +
             " of " + std::to_string(join.classes.size()));
    }
  }
}

void expect_whole(const DamagedValue& damaged) {
  if (damaged.process == damaged.holder) {
    refuse("a process that reports its own values as damaged");
  }
}

void expect_whole(const EncodingOffer& offer) {
  expect_class_name(offer.record.execution_class);
}

void expect_whole(const EncodingDone& done) {
  expect_class_name(done.execution_class);
  expect_class_name(done.encoder_class);
}

}  // namespace

std::string encode(const JobRecord& job) {
  return written(job, kMostJobBytes, "job record",
                 "split the job with --samples A:B");
}

JobRecord read_job(std::span<const std::byte> bytes) {
  return RecordReader::read<JobRecord>(limited(bytes, kMostJobBytes),
                                       kMostNewsEntries, Ints::any);
}

std::string encode(const News& news) {
  if (const auto* offer = std::get_if<Offer>(&news)) {
    (void)encode(offer->job);  // not too large
  }
  return written(news, kMostNewsBytes, "message");
}

News decode_news(std::span<const std::byte> bytes) {
  News news = RecordReader::read<News>(limited(bytes, kMostNewsBytes),
                                       kMostNewsEntries);
  std::visit([](const auto& one) { expect_whole(one); }, news);
  return news;
}

std::string encode(const Applicant& applicant) {
  return written(applicant, kMostGreeting, "greeting");
}

Applicant decode_applicant(std::span<const std::byte> bytes) {
  return RecordReader::read<Applicant>(limited(bytes, kMostGreeting),
                                       kMostEndpoints);
}

std::string encode(const Welcome& welcome) {
  return written(welcome, kMostGreeting, "greeting");
}

Welcome decode_welcome(std::span<const std::byte> bytes) {
  return RecordReader::read<Welcome>(limited(bytes, kMostGreeting), 0);
}

std::string encode(const PeerGreeting& greeting) {
  return written(greeting, kMostGreeting, "greeting");
}

PeerGreeting decode_peer_greeting(std::span<const std::byte> bytes) {
  return RecordReader::read<PeerGreeting>(limited(bytes, kMostGreeting), 0);
}

std::string encode(const ClientQuestion& question) {
  return written(question, kMostClientBytes, "question");
}

ClientQuestion decode_question(std::span<const std::byte> bytes) {
  return RecordReader::read<ClientQuestion>(limited(bytes, kMostClientBytes),
                                            0);
}

std::string encode(const ClientAnswer& answer) {
  ClientAnswer sent = answer;
  if (auto* status = std::get_if<JobStatus>(&sent)) {
    for (Process& node : status->progress.processes) {
      std::vector<DeviceMeans>& devices = node.means.devices;
      devices.resize(std::min<std::size_t>(devices.size(), kMostShownDevices));
    }
  }
  return written(sent, kMostClientBytes, "answer");
}

ClientAnswer decode_answer(std::span<const std::byte> bytes) {
  return RecordReader::read<ClientAnswer>(limited(bytes, kMostClientBytes),
                                          kMostNewsEntries);
}

std::string encode(const ValueKey& key) {
  return written(key, kMostGreeting, "key");
}

ValueKey decode_key(std::span<const std::byte> bytes) {
  return RecordReader::read<ValueKey>(limited(bytes, kMostGreeting), 0);
}

std::string encode(const LinkPace& pace) {
  return written(pace, kMostGreeting, "pace");
}

LinkPace decode_pace(std::span<const std::byte> bytes) {
  return RecordReader::read<LinkPace>(limited(bytes, kMostGreeting), 0);
}

std::string encode_outline(const Parcel& parcel) {
  ParcelOutline outline;
  for (const NamedTensor& named : parcel) {
    TensorOutline& one = outline.tensors.emplace_back();
    one.name = named.name;
    if (!named.tensor.empty()) {
      const auto extents = named.tensor.shape().extents();
      one.dtype = named.tensor.dtype();
      one.shape.assign(extents.begin(), extents.end());
    }
  }
  return written(outline, kMostParcelBytes, "value");
}

Parcel decode_outline(std::span<const std::byte> bytes,
                      std::span<const Elements> elements) {
  const auto outline = RecordReader::read<ParcelOutline>(
      limited(bytes, kMostParcelBytes), kMostParcelEntries);
  Parcel parcel;
  parcel.reserve(outline.tensors.size());
  std::size_t next = 0;
  for (const TensorOutline& one : outline.tensors) {
    if (one.shape.empty()) {
      parcel.push_back({one.name, {}});
      continue;
    }
    if (next == elements.size() || !one.dtype) {
      refuse("tensor " + in_quotes(one.name) + " has no elements, or no type");
    }
    const Elements& its = elements[next++];
    check_elements(*one.dtype, one.shape, its.num_bytes);
    parcel.push_back({one.name, {its.first, Shape(one.shape), *one.dtype}});
  }
  if (next != elements.size()) {
    refuse("elements of " + std::to_string(elements.size()) +
           " tensors, expected " + std::to_string(next));
  }
  return parcel;
}

}  // namespace troupe::actors::wire
