#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// New pinned memory of the host, to be released by cudaFreeHost. Slow: it
/// stops the whole device, and waits while another thread records. Errors:
/// Errc::out_of_memory with the number of bytes, Errc::device_lost. Thread: any
/// but one that records.
[[nodiscard]] std::byte* pin_memory(std::size_t bytes);

/// A pool of pinned memory that one stream copies results into. Pinning is slow
/// and stops the whole device, so memory that was returned is handed out again.
/// It is unpinned when the host can pin no more, or when the backend and all
/// tensors that use the pool are gone: a tensor may outlive the backend.
///
/// Memory may be returned while a copy into it is still queued, and handed out
/// again at once. That is safe because the next owner writes it by a copy on
/// the same stream, which runs after the first, and reads it only after a mark
/// behind both. So no event is needed to know when memory is free, and two
/// streams must not share a pool.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  explicit PinnedPool(std::shared_ptr<Stream> stream);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// At least `bytes`, aligned to 4096; the contents are undefined. Until a
  /// mark behind its copies has passed, only copies on the stream may write it.
  /// If no memory is free, some is pinned for the thread's current device,
  /// which waits while another thread records. Its release may have to wait for
  /// a `take` that pins. Errors: Errc::out_of_memory, Errc::device_lost.
  /// Thread: any but one that records; the release on any.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    bool is_free = true;
  };
  /// A free buffer, marked as taken; null without a free buffer.
  [[nodiscard]] Buffer* find_free(std::size_t bytes);
  [[nodiscard]] Buffer* add(std::size_t bytes);
  /// Waits for the stream, then unpins all free buffers.
  void release_free();
  void give_back(Buffer& buffer) noexcept;

  std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  std::list<Buffer> buffers_;  ///< a list: addresses of buffers must stay
};

}  // namespace troupe::kernels::cuda
