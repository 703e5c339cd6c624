#include "tests/cuda/emulator/blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "tests/cuda/emulator/fibers.h"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/running.h"
#include "tests/cuda/emulator/shared_memory.h"

namespace troupe::emulator {
namespace {

using kernels::cuda::HostBlock;
using kernels::cuda::HostLane;
using kernels::cuda::HostLaunch;

constexpr int kWarp = HostLane::kWarp;
using Kernel = std::function<void(HostLane&)>;

/// A block whose threads do not need each other.
class PlainBlock final : public HostBlock {
 public:
  void run(const Kernel& kernel) {
    for (int thread = 0; thread < num_threads; ++thread) {
      now_at(x, y, thread);
      HostLane lane(*this, thread);
      kernel(lane);
    }
  }
  void sync(int /*thread*/) override {
    report_bug("a kernel that does not say so synchronises its block");
  }
  std::uint64_t shuffle_xor(int /*thread*/, std::uint64_t /*bits*/,
                            int /*mask*/) override {
    report_bug("a kernel that does not say so shuffles");
  }
};

/// A block whose threads meet.
class CooperatingBlock final : public HostBlock {
 public:
  explicit CooperatingBlock(Fibers& fibers) : fibers_(fibers) {}

  void run(const Kernel& kernel) {
    const auto count = static_cast<std::size_t>(num_threads);
    threads_.assign(count, {});
    warps_.assign((count + kWarp - 1) / kWarp, {});
    ready_.resize(count);
    std::iota(ready_.begin(), ready_.end(), 0);
    num_at_sync_ = num_ended_ = 0;
    fibers_.start(num_threads, [this, &kernel](int thread) {
      HostLane lane(*this, thread);
      kernel(lane);
    });
    while (!ready_.empty()) {
      std::swap(ready_[draw(ready_.size())], ready_.back());
      const int thread = ready_.back();
      ready_.pop_back();
      now_at(x, y, thread);
      if (!fibers_.resume(thread)) {
        ++num_ended_;
      }
      wake(thread);
    }
    if (num_ended_ != num_threads) {
      report_divergence();
    }
  }

  void sync(int thread) override {
    state_of(thread).waits = Waits::for_block;
    ++num_at_sync_;
    fibers_.yield();
  }

  std::uint64_t shuffle_xor(int thread, std::uint64_t bits, int mask) override {
    if (mask < 0 || mask >= kWarp) {
      report_bug("a shuffle over more than a warp: mask " +
                 std::to_string(mask));
    }
    Thread& it = state_of(thread);
    it.waits = Waits::for_warp;
    it.bits = bits;
    it.mask = mask;
    ++warp_of(thread);
    fibers_.yield();
    return it.received;
  }

 private:
  enum class Waits { no, for_block, for_warp };
  struct Thread {
    Waits waits = Waits::no;
    int mask = 0;
    std::uint64_t bits = 0;
    std::uint64_t received = 0;
  };

  Thread& state_of(int thread) {
    return threads_[static_cast<std::size_t>(thread)];
  }
  int& warp_of(int thread) {
    return warps_[static_cast<std::size_t>(thread / kWarp)];
  }

  /// After `thread` stopped: a thread goes on when all threads that it waits
  /// for have arrived.
  void wake(int thread) {
    const int first = thread / kWarp * kWarp;
    const int last = std::min(first + kWarp, num_threads);
    if (num_at_sync_ == num_threads) {
      num_at_sync_ = 0;
      wake_range(0, num_threads);
    } else if (warp_of(thread) == last - first) {
      warp_of(thread) = 0;
      exchange(first, last);
      wake_range(first, last);
    }
  }

  void wake_range(int first, int last) {
    for (int thread = first; thread < last; ++thread) {
      state_of(thread).waits = Waits::no;
      ready_.push_back(thread);
    }
  }

  void exchange(int first, int last) {
    for (int thread = first; thread < last; ++thread) {
      Thread& it = state_of(thread);
      if (it.mask != state_of(first).mask) {
        report_bug("threads of a warp shuffle with different masks");
      }
      const int other = first + ((thread - first) ^ it.mask);
      // The value of a missing thread is undefined.
      it.received = other < last ? state_of(other).bits : ~std::uint64_t{0};
    }
  }

  [[noreturn]] void report_divergence() {
    int at_warp = 0;
    for (const Thread& thread : threads_) {
      at_warp += thread.waits == Waits::for_warp ? 1 : 0;
    }
    report_bug("divergent threads: of " + std::to_string(num_threads) + ", " +
               std::to_string(num_at_sync_) + " wait in sync, " +
               std::to_string(at_warp) + " in shuffle_xor, " +
               std::to_string(num_ended_) + " have ended");
  }

  Fibers& fibers_;
  std::vector<Thread> threads_;
  std::vector<int> warps_;  ///< threads of it that wait in a shuffle
  std::vector<int> ready_;
  int num_at_sync_ = 0;
  int num_ended_ = 0;
};

/// Every block once: steps of a length that shares no factor with the count.
class BlockOrder {
 public:
  explicit BlockOrder(const HostLaunch& launch)
      : num_x_(launch.blocks_x), count_(launch.blocks_x * launch.blocks_y) {
    const auto count = static_cast<std::size_t>(count_);
    at_ = static_cast<std::int64_t>(draw(count));
    step_ = 1 + static_cast<std::int64_t>(draw(count));
    while (std::gcd(step_, count_) != 1) {
      ++step_;
    }
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  void next(HostBlock& block) {
    block.x = at_ % num_x_;
    block.y = at_ / num_x_;
    at_ = (at_ + step_) % count_;
  }

 private:
  std::int64_t num_x_;
  std::int64_t count_;
  std::int64_t at_ = 0;
  std::int64_t step_ = 1;
};

template <typename Block>
void walk(Block& block, const HostLaunch& launch, const Kernel& kernel) {
  static SharedMemory memory;
  block.num_x = launch.blocks_x;
  block.num_threads = launch.threads;
  BlockOrder order(launch);
  for (std::int64_t i = 0; i < order.count(); ++i) {
    order.next(block);
    block.shared = memory.fresh(launch.shared_bytes);
    block.run(kernel);
    memory.check();
  }
}

}  // namespace

void run_blocks(const HostLaunch& launch, const Kernel& kernel) {
  if (launch.cooperates) {
    static Fibers fibers;
    CooperatingBlock block(fibers);
    walk(block, launch, kernel);
  } else {
    PlainBlock block;
    walk(block, launch, kernel);
  }
}

}  // namespace troupe::emulator
