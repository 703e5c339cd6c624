// libFuzzer target: any bytes as a job's record or as another record that comes
// from a peer, and valid ones of which one field or some bytes were changed.
// The first byte of an input says what the others are. Built and run by
// scripts/fuzz_records.sh.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "tests/actors/random_messages.h"
#include "tests/core/allocation_guard.h"

namespace {

using namespace troupe;
using namespace troupe::actors;

/// Memory that the reader of a record may hold at once: so many times the
/// record's size, and a constant.
constexpr std::size_t kMostPerByte = 64;
constexpr std::size_t kMostToRead = std::size_t{1} << 20U;
/// And its check: the largest stale pipeline that passes.
constexpr std::size_t kMostToCheck = std::size_t{128} << 20U;

/// Records that pass `check`, of every solver and method.
std::vector<JobRecord> make_seeds() {
  using samplers::MethodKind;
  const samplers::MethodOptions methods[] = {
      {.kind = MethodKind::sequential},
      {.kind = MethodKind::cfg},
      {.kind = MethodKind::picard, .window_size = 3},
      {.kind = MethodKind::pipeline, .num_segments = 2},
      {.kind = MethodKind::stale, .num_segments = 2},
      {.kind = MethodKind::stale, .num_segments = 2, .stride = 2}};
  samplers::ScheduleOptions options;
  options.num_inference_steps = 4;
  options.num_train_timesteps = 8;
  std::vector<JobRecord> seeds;
  for (const samplers::Solver solver : samplers::solver_table()) {
    options.solver = solver;
    for (const samplers::MethodOptions& method : methods) {
      seeds.push_back(small_job(options, method));
    }
  }
  return seeds;
}

const JobRecord& seed_record(std::uint64_t which) {
  static const std::vector<JobRecord> kSeeds = make_seeds();
  return kSeeds[which % kSeeds.size()];
}

std::span<const std::byte> as_record(const std::uint8_t* data,
                                     std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

/// Nothing where `decode` refuses the bytes.
template <typename Decode>
auto read_as(std::span<const std::byte> bytes, const Decode& decode)
    -> std::optional<decltype(decode(bytes))> {
  const AllocationGuard guard(kMostPerByte * bytes.size() + kMostToRead);
  try {
    return decode(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Encoding and decoding a record that was read changes nothing. False: the
/// bytes were refused.
template <typename Decode>
bool read_and_send(std::span<const std::byte> bytes, const Decode& decode) {
  const auto value = read_as(bytes, decode);
  if (value) {
    const std::string sent = actors::wire::encode(*value);
    const auto came = decode(std::as_bytes(std::span(sent)));
    if (actors::wire::encode(came) != sent) {
      std::abort();
    }
  }
  return value.has_value();
}

/// Tensors of three floats.
constexpr std::size_t kNumElements = 2;
bool read_outline(std::span<const std::byte> bytes) {
  const std::shared_ptr<float[]> floats(new float[3]());
  const actors::wire::Elements one{
      {floats, reinterpret_cast<std::byte*>(floats.get())}, 3 * sizeof(float)};
  const std::array<actors::wire::Elements, kNumElements> elements{one, one};
  const auto parcel = read_as(bytes, [&](std::span<const std::byte> it) {
    return actors::wire::decode_outline(it, elements);
  });
  if (parcel) {
    const std::string sent = actors::wire::encode_outline(*parcel);
    (void)actors::wire::decode_outline(std::as_bytes(std::span(sent)),
                                       elements);
  }
  return parcel.has_value();
}

/// A decoder, and what it reads.
struct Kind {
  bool (*feed)(std::span<const std::byte> bytes);
  std::string (*seed)(std::uint64_t which);
};

template <auto decode>
bool feed(std::span<const std::byte> bytes) {
  return read_and_send(bytes, decode);
}

template <typename OneOf>
std::string some_of(std::uint64_t which) {
  return random_one_of(OneOf(), which);
}

template <typename T>
std::string some(std::uint64_t which) {
  return actors::wire::encode(random_message<T>(which));
}

std::string some_outline(std::uint64_t /*which*/) {
  const Tensor tensor(Shape{1, 3}, DType::f32);
  return actors::wire::encode_outline(
      {{"a", tensor}, {"b", {}}, {"c", tensor}});
}

constexpr Kind kKinds[] = {
    {feed<actors::wire::decode_news>, some_of<actors::wire::News>},
    {feed<actors::wire::decode_applicant>, some<Applicant>},
    {feed<actors::wire::decode_welcome>, some<Welcome>},
    {feed<actors::wire::decode_peer_greeting>, some<PeerGreeting>},
    {feed<actors::wire::decode_question>, some_of<ClientQuestion>},
    {feed<actors::wire::decode_answer>, some_of<ClientAnswer>},
    {read_outline, some_outline},
};

/// What an input begins with: half of all bytes stand for a job's record.
constexpr bool is_job(std::uint8_t first) { return first % 2 == 0; }
const Kind& kind_of(std::uint8_t first) {
  return kKinds[first / 2 % std::size(kKinds)];
}

std::size_t put(std::string bytes, std::uint8_t first, std::uint8_t* data,
                std::size_t max_size) {
  bytes.insert(bytes.begin(), static_cast<char>(first));
  const std::size_t kept = std::min(bytes.size(), max_size);
  std::copy_n(bytes.data(), kept, reinterpret_cast<char*>(data));
  return kept;
}

/// One field of the job that the bytes are, or of a valid one.
std::string changed_job(std::span<const std::byte> bytes, unsigned int seed) {
  JobRecord job;
  try {
    job = actors::wire::read_job(bytes);
  } catch (const Error&) {
    job = seed_record(seed / 4);
  }
  OneFieldChanged count(-1, 0);
  visit_fields(count, job);
  OneFieldChanged change(static_cast<int>(seed / 4) % count.count, seed);
  visit_fields(change, job);
  return actors::wire::encode(job);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_size);

/// Half of the time bytes are changed; otherwise one field of a job, or some
/// bytes of another valid record.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t max_size,
                                               unsigned int seed) {
  if (seed % 2 == 0 || max_size < 2) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  if (seed % 4 == 1) {
    const std::size_t head = std::min<std::size_t>(size, 1);
    return put(changed_job(as_record(data + head, size - head), seed), 0, data,
               max_size);
  }
  const auto first = static_cast<std::uint8_t>(seed / 4 * 2 + 1);
  const std::size_t kept =
      put(kind_of(first).seed(seed / 64), first, data, max_size);
  return 1 + LLVMFuzzerMutate(data + 1, kept - 1, max_size - 1);
}

namespace {

/// What passes `check` is the same job when it travels on, and can be run.
void check_record(const JobRecord& job, std::size_t size) {
  const AllocationGuard guard(kMostPerByte * size + kMostToCheck);
  try {
    check(job);
  } catch (const Error&) {
    return;
  }
  const std::string encoded = actors::wire::encode(job);
  const JobRecord back =
      actors::wire::read_job(std::as_bytes(std::span(encoded)));
  if (hash_of(back) != hash_of(job)) {
    std::abort();
  }
  const samplers::Schedule schedule =
      samplers::Schedule::from_table(job.schedule);
  if (samplers::make_method(job.method, schedule)
          ->ready(samplers::kNothingAhead)
          .empty()) {
    std::abort();  // a method that never begins
  }
}

}  // namespace

/// A seed that is refused would leave its decoder untried.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  for (const Kind& kind : kKinds) {
    for (std::uint64_t which = 0; which < 64; ++which) {
      const std::string seed = kind.seed(which);
      if (!kind.feed(std::as_bytes(std::span(seed)))) {
        std::abort();
      }
    }
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  (void)seed_record(0);  // made before anything is counted
  if (size == 0) {
    return 0;
  }
  const std::span<const std::byte> bytes = as_record(data + 1, size - 1);
  if (!is_job(data[0])) {
    kind_of(data[0]).feed(bytes);
  } else if (const auto job = read_as(bytes, actors::wire::read_job)) {
    check_record(*job, size);
  }
  return 0;
}
