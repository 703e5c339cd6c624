#include "kernels/core/pool.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

#include "kernels/core/error.h"

namespace troupe {
namespace {

// A step hands out work every few microseconds; a sleeping thread takes about
// fifty to wake. Spinning this long bridges the gaps inside a step and leaves
// the core to others between steps.
constexpr std::chrono::microseconds kSpinTime{50};
constexpr int kPausesPerLook = 16;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` is no longer `old`: first spinning, then asleep.
void wait_for_change(const std::atomic<std::uint32_t>& value,
                     std::uint32_t old) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load(std::memory_order_acquire) != old) {
        return;
      }
      pause_cpu();
    }
  } while (Clock::now() < end);
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

Error thread_refusal(int started, int wanted, const std::system_error& cause) {
  return {Errc::invalid_argument, "threads",
          "cannot start: got " + std::to_string(started) + ", expected " +
              std::to_string(wanted) + " more (" + cause.code().message() + ")",
          "use fewer --workers and --threads, or allow more (ulimit -u, the "
          "container's limit of processes)"};
}

void check_threads(int count) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(std::max(count, 0)));
  const auto end = [&] {
    over = true;
    over.notify_all();
    for (std::thread& thread : threads) {
      thread.join();
    }
  };
  try {
    while (static_cast<int>(threads.size()) < count) {
      threads.emplace_back([&over] { over.wait(false); });
    }
  } catch (const std::system_error& error) {
    const auto started = static_cast<int>(threads.size());
    end();
    throw thread_refusal(started, count, error);
  }
  end();
}

void use_one_openmp_thread() { omp_set_num_threads(1); }

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1) {
    throw Error(Errc::invalid_argument, "threads",
                "at least one is needed: got " + std::to_string(num_threads));
  }
  threads_.reserve(static_cast<std::size_t>(num_threads) - 1);
  try {
    for (int thread = 1; thread < num_threads; ++thread) {
      threads_.emplace_back([this, thread] { work(thread); });
    }
  } catch (const std::system_error& error) {
    const int started = this->num_threads();
    stop();
    throw thread_refusal(started, num_threads, error);
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  stop_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void ThreadPool::run_erased(std::int64_t count, Call call, const void* fn) {
  if (count <= 0) {
    return;
  }
  if (threads_.empty() || count == 1) {
    for (std::int64_t piece = 0; piece < count; ++piece) {
      call(fn, piece, 0);
    }
    return;
  }
  count_ = count;
  call_ = call;
  fn_ = fn;
  unfinished_.store(count, std::memory_order_relaxed);
  const std::uint32_t before = finished_.load(std::memory_order_relaxed);
  unclaimed_.store(count, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  help(0);
  wait_for_change(finished_, before);
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::work(int thread) {
  use_one_openmp_thread();
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_change(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stop_) {
      return;
    }
    help(thread);
  }
}

void ThreadPool::help(int thread) noexcept {
  std::int64_t left = unclaimed_.load(std::memory_order_acquire);
  while (left > 0) {
    if (unclaimed_.compare_exchange_weak(left, left - 1,
                                         std::memory_order_acq_rel,
                                         std::memory_order_acquire)) {
      run_piece(count_ - left, thread);
      left = unclaimed_.load(std::memory_order_acquire);
    }
  }
}

void ThreadPool::run_piece(std::int64_t piece, int thread) noexcept {
  std::int64_t ended = 1;
  try {
    call_(fn_, piece, thread);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) {
      error_ = std::current_exception();
    }
    ended += unclaimed_.exchange(0, std::memory_order_acq_rel);
  }
  if (unfinished_.fetch_sub(ended, std::memory_order_acq_rel) == ended) {
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_all();
  }
}

}  // namespace troupe
