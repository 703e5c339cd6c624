#pragma once

// For nvcc only: see launch.cuh.

namespace troupe::kernels::cuda {

/// One thread of a block on the GPU. Blocks are one-dimensional.
class DeviceLane {
 public:
  static constexpr int kWarp = 32;

  TROUPE_DEVICE int thread() const { return static_cast<int>(threadIdx.x); }
  TROUPE_DEVICE int num_threads() const { return static_cast<int>(blockDim.x); }
  TROUPE_DEVICE std::int64_t block() const { return blockIdx.x; }
  TROUPE_DEVICE std::int64_t block_y() const { return blockIdx.y; }
  TROUPE_DEVICE std::int64_t num_blocks() const { return gridDim.x; }

  /// Waits for all threads of the block, which then see each other's writes to
  /// shared memory.
  TROUPE_DEVICE void sync() { __syncthreads(); }
  /// The value of the thread in this warp whose number is this thread's XOR
  /// `mask`. All threads of the warp call it.
  template <typename T>
  TROUPE_DEVICE T shuffle_xor(T value, int mask) {
    return __shfl_xor_sync(0xffffffffU, value, mask);
  }
  /// The block's dynamic shared memory, aligned to 16 bytes.
  template <typename T>
  TROUPE_DEVICE T* shared() {
    extern __shared__ __align__(16) unsigned char memory[];
    return reinterpret_cast<T*>(memory);
  }
};

}  // namespace troupe::kernels::cuda
