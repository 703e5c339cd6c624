// libFuzzer target: any bytes as a job's record, and valid records of which one
// field was changed. Built and run by scripts/fuzz_job_record.sh.
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "actors/wire/job_codec.h"
#include "kernels/core/error.h"
#include "samplers/parallel/method.h"
#include "tests/actors/random_records.h"

namespace {

using namespace troupe;
using namespace troupe::actors;

/// What one record may make the reader hold at once: a small multiple of its
/// size, and what the largest method takes that a record can name (a stale
/// pipeline of 2,097,152 turns; a record of this size names far fewer).
constexpr std::size_t kMostPerByte = 256;
constexpr std::size_t kMostAnyway = std::size_t{64} << 20U;

std::size_t limit = 0;  // 0: nothing is counted
std::size_t held = 0;

void count_allocation(const volatile void* /*memory*/, std::size_t size) {
  held += limit == 0 ? 0 : size;
  if (limit != 0 && held > limit) {
    std::fprintf(stderr, "fuzz: %zu bytes held at once, at most %zu expected\n",
                 held, limit);
    std::abort();
  }
}

void count_free(const volatile void* memory) {
  if (limit != 0 && memory != nullptr) {
    held -= std::min(
        held, __sanitizer_get_allocated_size(const_cast<const void*>(memory)));
  }
}

/// A few records that pass `check`, of every solver and method.
std::string seed_record(std::uint64_t which) {
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
  options.solver =
      samplers::solver_table()[which % samplers::solver_table().size()];
  return wire::encode(small_job(options, methods[which / 8 % 6]));
}

std::span<const std::byte> as_record(const std::uint8_t* data,
                                     std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_size);

/// Half of the time bytes are changed; otherwise one field of the record that
/// they are, or of a valid one.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data,
                                               std::size_t size,
                                               std::size_t max_size,
                                               unsigned int seed) {
  if (seed % 2 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  JobRecord job;
  try {
    job = wire::read_job(as_record(data, size));
  } catch (const Error&) {
    const std::string valid = seed_record(seed / 2);
    job = wire::read_job(std::as_bytes(std::span(valid)));
  }
  OneFieldChanged count(-1, 0);
  visit_fields(count, job);
  OneFieldChanged change(static_cast<int>(seed / 2) % count.count, seed);
  visit_fields(change, job);
  const std::string bytes = wire::encode(job);
  const std::size_t kept = std::min(bytes.size(), max_size);
  std::copy_n(bytes.data(), kept, reinterpret_cast<char*>(data));
  return kept;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const int installed =
      __sanitizer_install_malloc_and_free_hooks(count_allocation, count_free);
  if (installed == 0) {
    std::abort();
  }
  held = 0;
  limit = kMostPerByte * size + kMostAnyway;
  try {
    const JobRecord job = wire::decode_job(as_record(data, size));
    // What passes is the same job when it travels on, and can be run.
    const std::string bytes = wire::encode(job);
    const JobRecord back = wire::read_job(std::as_bytes(std::span(bytes)));
    if (hash_of(back) != hash_of(job)) {
      std::abort();
    }
    const samplers::Schedule schedule =
        samplers::Schedule::from_table(job.schedule);
    if (!samplers::make_method(job.method, schedule)->ready().empty()) {
      limit = 0;
      return 0;
    }
    std::abort();  // a method that never begins
  } catch (const Error&) {
  }
  limit = 0;
  return 0;
}
