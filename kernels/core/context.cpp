#include "kernels/core/context.h"

#include <algorithm>

#include "kernels/core/error.h"

namespace troupe {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestChunk = std::size_t{1} << 20U;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Tensor bytes_tensor(std::size_t bytes) {
  return Tensor(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
}

}  // namespace

Workspace::Scope::Scope(Workspace& workspace)
    : workspace_(workspace),
      chunk_(workspace.current_),
      used_(workspace.chunks_.empty()
                ? 0
                : workspace.chunks_[workspace.current_].used) {
  ++workspace_.depth_;
}

Workspace::Scope::~Scope() {
  auto& chunks = workspace_.chunks_;
  for (std::size_t i = chunk_ + 1; i < chunks.size(); ++i) {
    chunks[i].used = 0;
  }
  if (!chunks.empty()) {
    chunks[chunk_].used = used_;
  }
  workspace_.current_ = chunk_;
  // The first pass over a shape may have needed several chunks; one that holds
  // them all makes every later pass free of allocation.
  if (--workspace_.depth_ == 0 && chunks.size() > 1) {
    const std::size_t total = workspace_.capacity_bytes();
    chunks.clear();
    chunks.push_back({bytes_tensor(total), 0});
  }
}

Tensor Workspace::take(const Shape& shape, DType dtype) {
  const std::size_t bytes = rounded_up(
      static_cast<std::size_t>(shape.num_elements()) * size_of(dtype));
  while (current_ < chunks_.size() &&
         chunks_[current_].used + bytes >
             chunks_[current_].memory.num_bytes()) {
    ++current_;
  }
  if (current_ == chunks_.size()) {
    chunks_.push_back(
        {bytes_tensor(std::max({bytes, kSmallestChunk, capacity_bytes()})), 0});
  }
  Chunk& chunk = chunks_[current_];
  const auto offset = static_cast<std::int64_t>(chunk.used);
  chunk.used += bytes;
  Tensor all =
      chunk.memory.slice(offset, offset + static_cast<std::int64_t>(bytes));
  std::byte* first = all.bytes().data();
  // The alias keeps the chunk alive through the u8 view's owner.
  return {std::shared_ptr<std::byte>(chunk.memory.owner(), first), shape, dtype,
          Device{}};
}

std::size_t Workspace::capacity_bytes() const noexcept {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks_) {
    total += chunk.memory.num_bytes();
  }
  return total;
}

ExecContext::ExecContext(int num_threads, Device device)
    : device_(device),
      pool_(num_threads),
      scratch_(static_cast<std::size_t>(num_threads)) {
  require(device.kind == DeviceKind::cpu, Errc::unsupported, "device",
          "no backend for " + to_string(device));
}

ExecContext::~ExecContext() = default;

std::byte* ExecContext::scratch(int thread, std::size_t bytes) {
  Tensor& buffer = scratch_[static_cast<std::size_t>(thread)];
  if (buffer.num_bytes() < bytes) {
    buffer = bytes_tensor(rounded_up(bytes));
  }
  return buffer.bytes().data();
}

void ExecContext::tick() {
  ticks_.fetch_add(1, std::memory_order_relaxed);
  require(!stop_requested_, Errc::interrupted, "run", "stop was requested");
}

}  // namespace troupe
