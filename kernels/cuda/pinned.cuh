#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "kernels/cuda/stream.cuh"

namespace troupe::kernels::cuda {

/// New pinned memory of the host, to be let go by cudaFreeHost. Slow, stops the
/// whole device and waits for another thread's recording. Errors:
/// Errc::out_of_memory with the number, Errc::device_lost. Thread: any but one
/// that records.
[[nodiscard]] std::byte* pin_memory(std::size_t bytes);

/// Pinned memory that one stream copies results into. What is let go is handed
/// out again, for taking pinned memory is slow and stops the whole device; it
/// is released when the host can pin no more, or the backend and the last of
/// its memory are gone, so a tensor may outlive the backend.
///
/// Memory that is let go while a copy into it is still queued may be handed out
/// at once: its next owner fills it by a copy on the same stream, behind that
/// one, and reads it behind a mark that is later than both; until then nobody
/// touches it, the former owner no longer. So memory needs no event to be free,
/// and two streams must not share a pool.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  explicit PinnedPool(std::shared_ptr<Stream> stream);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// At least `bytes`, with the bytes of its former use, aligned to 4096. To be
  /// written by copies on the stream until a mark behind them has passed. New
  /// memory is taken for the thread's current device and waits for another
  /// thread's recording. Returning it waits for nothing but the taking of new
  /// memory. Errors: Errc::out_of_memory, Errc::device_lost.
  /// Thread: any, to return it too; one that records may not take.
  [[nodiscard]] std::shared_ptr<std::byte> take(std::size_t bytes);

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    bool is_free = true;
  };
  /// Marks it as taken; null when there is none.
  [[nodiscard]] Buffer* find_free(std::size_t bytes);
  [[nodiscard]] Buffer* add(std::size_t bytes);
  /// Waits for the stream.
  void release_free();
  void give_back(Buffer& buffer) noexcept;

  std::shared_ptr<Stream> stream_;
  std::mutex mutex_;
  std::list<Buffer> buffers_;  ///< addresses stay
};

}  // namespace troupe::kernels::cuda
