// libFuzzer target: any bytes as a job's record, and valid records of which one
// field was changed. Built and run by scripts/fuzz_job_record.sh.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "actors/wire/condition_codec.h"
#include "actors/wire/job_codec.h"
#include "actors/wire/message.h"
#include "actors/wire/wire.pb.h"
#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "tests/actors/random_records.h"
#include "tests/core/allocation_guard.h"

namespace {

using namespace troupe;
using namespace troupe::actors;

/// What the reader of a record may hold at once: so many times its size, and
/// something for any record.
constexpr std::size_t kMostPerByte = 64;
constexpr std::size_t kMostToRead = std::size_t{1} << 20U;
/// protobuf 3.21 reserves up to this for a text that is longer than the message
/// it lies in, where that message is longer than the record; then it refuses.
constexpr std::size_t kMostToRefuse = 50'000'001;
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

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_size);

/// Half of the time bytes are changed; otherwise one field of the record that
/// they are, or of a valid one; sometimes the bytes of a condition.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t max_size,
                                               unsigned int seed) {
  if (seed % 2 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  if (seed % 16 == 1) {
    const std::string bytes = actors::wire::encode(models::Condition(seed % 4));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(data));
    return LLVMFuzzerMutate(data, bytes.size(), max_size);
  }
  JobRecord job;
  try {
    job = actors::wire::read_job(as_record(data, size));
  } catch (const Error&) {
    job = seed_record(seed / 2);
  }
  OneFieldChanged count(-1, 0);
  visit_fields(count, job);
  OneFieldChanged change(static_cast<int>(seed / 2) % count.count, seed);
  visit_fields(change, job);
  const std::string bytes = actors::wire::encode(job);
  const std::size_t kept = std::min(bytes.size(), max_size);
  std::copy_n(bytes.data(), kept, reinterpret_cast<char*>(data));
  return kept;
}

namespace {

/// Whether the lengths in `bytes` fit into each other.
template <class Message>
bool is_message(std::span<const std::byte> bytes) {
  const AllocationGuard guard(kMostPerByte * bytes.size() + kMostToRead +
                              kMostToRefuse);
  Message message;
  try {
    actors::wire::parse(bytes, bytes.size(), message);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void read_condition(std::span<const std::byte> bytes) {
  if (!is_message<troupe::wire::Condition>(bytes)) {
    return;
  }
  const AllocationGuard guard(kMostPerByte * bytes.size() + kMostToRead);
  try {
    (void)actors::wire::decode_condition(bytes);
  } catch (const Error&) {
  }
}

std::optional<JobRecord> read_record(std::span<const std::byte> bytes) {
  if (!is_message<troupe::wire::Job>(bytes)) {
    return std::nullopt;
  }
  const AllocationGuard guard(kMostPerByte * bytes.size() + kMostToRead);
  try {
    return actors::wire::read_job(bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  (void)seed_record(0);  // made before anything is counted
  const std::span<const std::byte> bytes = as_record(data, size);
  read_condition(bytes);
  if (const std::optional<JobRecord> job = read_record(bytes)) {
    check_record(*job, size);
  }
  return 0;
}
