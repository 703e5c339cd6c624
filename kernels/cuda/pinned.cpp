#include "kernels/cuda/pinned.cuh"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::kernels::cuda {
namespace {

/// Memory is pinned in pages.
constexpr std::size_t kSmallest = 4096;

}  // namespace

std::byte* pin_memory(std::size_t bytes) {
  const std::scoped_lock lock(set_up_mutex());
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    ignore(status);
    throw Error(
        Errc::out_of_memory, "pinned memory",
        "cannot pin " + std::to_string(bytes) + " bytes of the host's memory",
        "free memory, or use a smaller --batch, a smaller model or --dtype "
        "bf16");
  }
  check(status, "pinned memory");
  return static_cast<std::byte*>(memory);
}

PinnedPool::PinnedPool(std::shared_ptr<Stream> stream)
    : stream_(std::move(stream)) {}

PinnedPool::~PinnedPool() {
  if (stream_->is_abandoned()) {
    return;
  }
  const std::scoped_lock lock(set_up_mutex());
  const OnDevice on(stream_->device());
  // Copies may still be under way.
  ignore(cudaStreamSynchronize(stream_->get()));
  for (const Buffer& buffer : buffers_) {
    ignore(cudaFreeHost(buffer.memory));
  }
}

std::shared_ptr<std::byte> PinnedPool::take(std::size_t bytes) {
  // Sizes that are powers of two: what a job reads back varies little, and
  // sizes that grow slowly must not leave a buffer each behind.
  const std::size_t size = std::bit_ceil(std::max(bytes, kSmallest));
  Buffer* buffer = find_free(size);
  if (buffer == nullptr) {
    buffer = add(size);
  }
  return {buffer->memory, [pool = shared_from_this(), buffer](std::byte*) {
            pool->give_back(*buffer);
          }};
}

PinnedPool::Buffer* PinnedPool::find_free(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find_if(buffers_, [&](const Buffer& buffer) {
    return buffer.is_free && buffer.bytes == bytes;
  });
  if (found == buffers_.end()) {
    return nullptr;
  }
  found->is_free = false;
  return &*found;
}

PinnedPool::Buffer* PinnedPool::add(std::size_t bytes) {
  // In this order: a thread that records holds the first lock, and may be
  // giving memory back under the second.
  const std::scoped_lock set_up(set_up_mutex());
  const std::scoped_lock lock(mutex_);
  std::byte* memory = nullptr;
  try {
    memory = pin_memory(bytes);
  } catch (const Error& error) {
    if (error.code() != Errc::out_of_memory) {
      throw;
    }
    release_free();
    memory = pin_memory(bytes);
  }
  buffers_.push_back({memory, bytes, false});
  return &buffers_.back();
}

void PinnedPool::release_free() {
  check(cudaStreamSynchronize(stream_->get()), "pinned memory");
  std::erase_if(buffers_, [](const Buffer& buffer) {
    if (buffer.is_free) {
      ignore(cudaFreeHost(buffer.memory));
    }
    return buffer.is_free;
  });
}

void PinnedPool::give_back(Buffer& buffer) noexcept {
  const std::scoped_lock lock(mutex_);
  buffer.is_free = true;
}

}  // namespace troupe::kernels::cuda
