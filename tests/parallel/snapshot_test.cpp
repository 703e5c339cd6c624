#include <gtest/gtest.h>

#include <memory>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"
#include "samplers/parallel/bytes.h"
#include "tests/parallel/run_local.h"
#include "tests/parallel/support.h"

namespace troupe::samplers::testing {
namespace {

/// Goes on from a snapshot and the live slots of that moment.
Tensor resumed(Bench& bench, const MethodOptions& options, const Method& cut,
               const SlotTable& values, const std::vector<TaskResult>& late,
               Progress& progress) {
  const auto method = make_method(options, bench.schedule);
  method->restore(cut.snapshot());
  EXPECT_EQ(method->live_slots(), cut.live_slots());
  for (const TaskResult& result : late) {
    EXPECT_FALSE(method->apply(result));
  }
  SlotTable slots;
  for (const Slot slot : cut.live_slots()) {
    slots.put(slot, values.get(slot));
  }
  TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
  while (!method->done()) {
    for (Task& task : method->ready(kNothingAhead)) {
      const std::vector<BoundTask> tasks = {{0, std::move(task), &slots}};
      const auto results = run_tasks(runner, bench.ctx, tasks);
      slots.erase(method->apply(results.front()).value());
    }
  }
  progress = method->progress();
  return std::get<SolverState>(slots.get(method->result_slot())).latents;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNth = 6;  // it takes ten times as long there
#else
constexpr int kNth = 1;
#endif

TEST(Snapshot, AtEveryPointOfARunGivesTheSameBytes) {
  const std::vector<SolverCase> all = solver_cases(7);
  for (std::size_t i = 0; i < all.size(); i += kNth) {
    const SolverCase& solver = all[i];
    for (const MethodOptions& options : method_cases()) {
      Bench bench(solver.options);
      if (!can_carry(options, bench.schedule)) {
        continue;
      }
      const auto whole = make_method(options, bench.schedule);
      const Tensor expected = bench.run(*whole, options).latents;

      const auto method = make_method(options, bench.schedule);
      TaskRunner runner(bench.schedule, bench.evaluator, bench.noise, options);
      SlotTable slots;
      slots.put(kInitialSlot, bench.start(0));
      const auto check = [&](const std::vector<TaskResult>& late) {
        Progress progress;
        const Tensor latents =
            resumed(bench, options, *method, slots, late, progress);
        EXPECT_TRUE(bytes_equal(latents, expected));
        EXPECT_EQ(progress.nfe, whole->progress().nfe);
        EXPECT_EQ(progress.rounds, whole->progress().rounds);
      };
      check({});
      while (!method->done()) {
        const std::vector<Task> tasks = method->ready(kNothingAhead);
        check({});
        for (const Task& task : tasks) {
          const std::vector<BoundTask> bound = {{0, task, &slots}};
          const auto results = run_tasks(runner, bench.ctx, bound);
          check(results);  // computed, but the result never arrived
          slots.erase(method->apply(results.front()).value());
          check(results);
        }
      }
    }
  }
}

TEST(Snapshot, IsCompact) {
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 7));
    const auto method = make_method(options, bench.schedule);
    (void)method->ready(kNothingAhead);
    // A window of five has ten tasks, five of them with two coefficients; of
    // taa five more.
    EXPECT_LT(method->snapshot().size(), 450U);
  }
}

TEST(Snapshot, ThatIsCutShortIsRefused) {
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 7));
    const auto method = make_method(options, bench.schedule);
    (void)method->ready(kNothingAhead);
    const std::string bytes = method->snapshot();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto other = make_method(options, bench.schedule);
      try {
        other->restore(bytes.substr(0, size));
        FAIL() << "took " << size << " of " << bytes.size() << " bytes";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_file);
      }
    }
    EXPECT_THROW(make_method(options, bench.schedule)->restore(bytes + "x"),
                 Error);
  }
}

TEST(Snapshot, WhoseBytesWereChangedIsRefused) {
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 7));
    const auto method = make_method(options, bench.schedule);
    (void)method->ready(kNothingAhead);
    const std::string bytes = method->snapshot();
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      try {
        make_method(options, bench.schedule)->restore(changed);
        FAIL() << "byte " << at << " of " << bytes.size();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_file);
      }
    }
  }
}

/// With a byte changed and the right hash.
std::string crafted(std::string bytes, std::size_t at, char value) {
  bytes.resize(bytes.size() - ByteWriter::kHashBytes);
  bytes[at] = value;
  std::uint64_t hash = xxh3_64(std::as_bytes(std::span(bytes)));
  for (int i = 0; i < ByteWriter::kHashBytes; ++i, hash >>= 8U) {
    bytes.push_back(static_cast<char>(hash & 0xffU));
  }
  return bytes;
}

TEST(Snapshot, ThatIsCraftedIsRefusedOrHarmless) {
  for (const MethodOptions& options : method_cases()) {
    Bench bench(steps_for(options, 7));
    const auto method = make_method(options, bench.schedule);
    for (int results = 0; results < 12; ++results) {
      for (const Task& task : method->ready(kNothingAhead)) {
        std::vector<double> scalars(num_scalars(task), 0.5);
        (void)method->apply({task.id, task.version, scalars});
        break;
      }
    }
    const std::string bytes = method->snapshot();
    for (std::size_t at = 0; at + ByteWriter::kHashBytes < bytes.size(); ++at) {
      for (const char value : {0, 1, 2, 9, 63, 127}) {
        const auto other = make_method(options, bench.schedule);
        try {
          other->restore(crafted(bytes, at, value));
          for (int left = 200; left > 0 && !other->done(); --left) {
            for (const Task& task : other->ready(kNothingAhead)) {
              (void)other->apply({task.id, task.version,
                                  std::vector<double>(num_scalars(task), 0.5)});
            }
          }
        } catch (const std::exception&) {
        }
      }
    }
  }
}

TEST(Snapshot, OfOpenTasksWithoutTheirRoundIsRefused) {
  const MethodOptions options = {.kind = MethodKind::speculative,
                                 .window_size = 4};
  const Schedule schedule(steps_for(options, 7));
  const auto method = make_method(options, schedule);
  (void)method->ready(kNothingAhead);
  std::string bytes = method->snapshot();
  // After the name, the format and two numbers: how many points the round has,
  // six numbers, and six of the only point.
  const std::size_t count = 1 + options.kind->name.size() + 1 + 2;
  ASSERT_EQ(bytes[count], 1);
  bytes.erase(count + 7, 6);
  try {
    make_method(options, schedule)->restore(crafted(bytes, count, 0));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file);
    EXPECT_NE(std::string(error.what()).find("round"), std::string::npos);
  }
}

TEST(Snapshot, OfAnotherMethodIsRefused) {
  const auto all = method_cases();
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) {
      const auto from = make_method(all[i], Schedule(steps_for(all[i], 7)));
      const auto to = make_method(all[j], Schedule(steps_for(all[j], 7)));
      if (i != j) {
        EXPECT_THROW(to->restore(from->snapshot()), Error) << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace troupe::samplers::testing
