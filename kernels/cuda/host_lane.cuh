#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

// The counterpart of device_lane.cuh for the emulator in tests/cuda, which
// defines `launch_on_host`: see launch.cuh. nvcc never sees this file.

namespace troupe::kernels::cuda {

/// A block of threads, as its lanes see it. The emulator implements it.
class HostBlock {
 public:
  virtual ~HostBlock() = default;
  virtual void sync(int thread) = 0;
  virtual std::uint64_t shuffle_xor(int thread, std::uint64_t bits,
                                    int mask) = 0;

  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t num_x = 1;
  int num_threads = 1;
  std::byte* shared = nullptr;
};

/// One thread of a block, on the host.
class HostLane {
 public:
  static constexpr int kWarp = 32;

  HostLane(HostBlock& block, int thread) : block_(block), thread_(thread) {}

  [[nodiscard]] int thread() const { return thread_; }
  [[nodiscard]] int num_threads() const { return block_.num_threads; }
  [[nodiscard]] std::int64_t block() const { return block_.x; }
  [[nodiscard]] std::int64_t block_y() const { return block_.y; }
  [[nodiscard]] std::int64_t num_blocks() const { return block_.num_x; }

  void sync() { block_.sync(thread_); }
  template <typename T>
  T shuffle_xor(T value, int mask) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = block_.shuffle_xor(thread_, bits, mask);
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
  template <typename T>
  T* shared() {
    return reinterpret_cast<T*>(block_.shared);
  }

 private:
  HostBlock& block_;
  int thread_;
};

struct HostLaunch {
  std::int64_t blocks_x = 1;
  std::int64_t blocks_y = 1;
  int threads = 1;
  std::size_t shared_bytes = 0;
  bool cooperates = false;
  const char* name = "";
};

/// Queues the kernel on the emulated stream. As with a launch on a GPU,
/// cudaGetLastError tells the errors.
void launch_on_host(cudaStream_t stream, const HostLaunch& launch,
                    std::function<void(HostLane&)> kernel);

}  // namespace troupe::kernels::cuda
