#include "kernels/core/pool.h"

#include <omp.h>

#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe {
namespace {

// A step hands out work every few microseconds; a sleeping thread takes about
// fifty to wake. Spinning this long (some 20 µs) bridges the gaps inside a
// step and still leaves the core to others between steps.
constexpr int kSpins = 2000;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void use_one_openmp_thread() { omp_set_num_threads(1); }

ThreadPool::ThreadPool(int num_threads) {
  if (num_threads < 1) {
    throw Error(Errc::invalid_argument, "threads",
                "at least one is needed: got " + std::to_string(num_threads));
  }
  for (int thread = 1; thread < num_threads; ++thread) {
    threads_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  ++round_;
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
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  help(0);
  for (int left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    for (int spin = 0; spin < kSpins && left == busy_.load(); ++spin) {
      pause_cpu();
    }
    if (left == busy_.load()) {
      busy_.wait(left);
    }
  }
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::work(int thread) {
  use_one_openmp_thread();
  std::uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && round_.load() == seen; ++spin) {
      pause_cpu();
    }
    round_.wait(seen);
    ++seen;
    if (stop_) {
      return;
    }
    help(thread);
    busy_.fetch_sub(1, std::memory_order_release);
    busy_.notify_all();
  }
}

void ThreadPool::help(int thread) noexcept {
  for (;;) {
    const std::int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    if (piece >= count_) {
      return;
    }
    try {
      call_(fn_, piece, thread);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) {
        error_ = std::current_exception();
      }
      next_.store(count_, std::memory_order_relaxed);
    }
  }
}

}  // namespace troupe
