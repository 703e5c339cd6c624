#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/core/error.h"

namespace troupe {

/// A fixed team of threads that share independent pieces of work: samples,
/// heads, row or column panels. One pool belongs to one worker.
///
/// Any thread may run any piece, so a piece's arithmetic must not depend on the
/// thread: results then do not depend on the number of threads. OpenMP is set
/// to one thread on every thread that the pool starts. `run` waits for pieces,
/// not for threads: a thread that the system does not run in time takes no
/// piece, so a busy machine makes a call slower but never stalls it.
class ThreadPool {
 public:
  /// The caller of `run` is thread 0; num_threads − 1 more are started.
  /// Errors: Errc::invalid_argument if num_threads < 1 or the system refuses
  /// to start that many.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const noexcept {
    return static_cast<int>(threads_.size()) + 1;
  }

  /// Calls fn(piece, thread) for every piece in [0, count), and returns when
  /// all are done. If a piece throws, pieces that have not begun are skipped
  /// and the first exception is rethrown once the others have ended.
  /// Thread: one caller at a time; not re-entrant.
  template <typename Fn>
  void run(std::int64_t count, const Fn& fn) {
    run_erased(
        count,
        [](const void* f, std::int64_t piece, int thread) {
          (*static_cast<const Fn*>(f))(piece, thread);
        },
        &fn);
  }

 private:
  using Call = void (*)(const void*, std::int64_t, int);

  void run_erased(std::int64_t count, Call call, const void* fn);
  void work(int thread);
  void help(int thread) noexcept;
  void run_piece(std::int64_t piece, int thread) noexcept;
  void stop() noexcept;

  std::vector<std::thread> threads_;
  std::atomic<bool> stop_{false};
  // Sleeping threads wait for it to change. 32 bits wide: what a futex takes.
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::uint32_t> finished_{0};
  // A piece is claimed by counting `unclaimed_` down. A round ends after its
  // claimed pieces, so a thread with a claimed piece may read the job.
  std::atomic<std::int64_t> unclaimed_{0};
  std::atomic<std::int64_t> unfinished_{0};
  std::int64_t count_ = 0;
  Call call_ = nullptr;
  const void* fn_ = nullptr;
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

/// The error for a system that started `started` threads of `wanted` and
/// refuses the next: Errc::invalid_argument.
[[nodiscard]] Error thread_refusal(int started, int wanted,
                                   const std::system_error& cause);

/// Starts `count` threads at once and ends them again. To be called before
/// libraries that crash if the system refuses a thread. Errors: thread_refusal.
void check_threads(int count);

/// Makes OpenMP regions entered from the calling thread use that thread only.
/// Every thread that calls kernels must have called this once.
void use_one_openmp_thread();

}  // namespace troupe
