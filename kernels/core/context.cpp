#include "kernels/core/context.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/shard_context.h"

namespace troupe {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kDeviceAlignment = 256;
constexpr std::size_t kSmallestChunk = std::size_t{1} << 20U;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 56U;

std::size_t rounded_up(std::size_t bytes, std::size_t alignment = kAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Tensor bytes_tensor(std::size_t bytes) {
  return Tensor(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
}

std::size_t checked_bytes(const Shape& shape, DType dtype) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<std::int64_t>(size_of(dtype)),
                             &bytes) ||
      bytes > kMostBytes) {
    throw Error(Errc::out_of_memory, "workspace",
                "too large: got " + to_string(shape) + " of " +
                    std::string(to_string(dtype)));
  }
  return static_cast<std::size_t>(bytes);
}

}  // namespace

Workspace::Scope::Scope(Workspace& workspace)
    : workspace_(workspace),
      chunk_(workspace.current_),
      used_(workspace.chunks_.empty()
                ? 0
                : workspace.chunks_[workspace.current_].used),
      taken_bytes_(workspace.taken_bytes_) {
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
  workspace_.taken_bytes_ = taken_bytes_;
  // The first pass over a shape may have needed several chunks; one that holds
  // them all makes every later pass free of allocation.
  if (--workspace_.depth_ == 0 && chunks.size() > 1) {
    workspace_.merge();
  }
}

void Workspace::merge() noexcept {
  ++generation_;
  chunks_.clear();
  current_ = 0;
  taken_bytes_ = 0;
  try {
    chunks_.push_back({allocate(std::max(peak_bytes_, kSmallestChunk))});
  } catch (const Error&) {
    // The next `take` asks again and reports it.
  }
}

Tensor Workspace::allocate(std::size_t bytes) const {
  if (backend_ == nullptr) {
    return bytes_tensor(bytes);
  }
  return {backend_->allocate(bytes), Shape{static_cast<std::int64_t>(bytes)},
          DType::u8, device_};
}

/// `wanted` saves later passes an allocation; `least` is needed now.
Tensor Workspace::allocate_up_to(std::size_t wanted, std::size_t least) const {
  try {
    return allocate(wanted);
  } catch (const Error& error) {
    const bool is_short = error.code() == Errc::out_of_memory ||
                          error.code() == Errc::device_full;
    if (!is_short || wanted == least) {
      throw;
    }
  }
  return allocate(least);
}

Tensor Workspace::take(const Shape& shape, DType dtype) {
  const std::size_t bytes =
      rounded_up(checked_bytes(shape, dtype),
                 backend_ == nullptr ? kAlignment : kDeviceAlignment);
  std::size_t index = current_;
  while (index < chunks_.size() &&
         bytes > chunks_[index].memory.num_bytes() - chunks_[index].used) {
    ++index;
  }
  if (index == chunks_.size()) {
    ++generation_;
    const std::size_t before = chunks_.empty() ? peak_bytes_ : capacity_bytes();
    chunks_.push_back(
        {allocate_up_to(std::max({bytes, kSmallestChunk, before}), bytes), 0});
  }
  current_ = index;
  Chunk& chunk = chunks_[index];
  std::byte* first = chunk.memory.bytes().data() + chunk.used;
  chunk.used += bytes;
  taken_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
  // The alias keeps the chunk alive.
  return {std::shared_ptr<std::byte>(chunk.memory.owner(), first), shape, dtype,
          device_};
}

Workspace::Position Workspace::position() const noexcept {
  return {current_, chunks_.empty() ? 0 : chunks_[current_].used};
}

std::size_t Workspace::capacity_bytes() const noexcept {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks_) {
    total += chunk.memory.num_bytes();
  }
  return total;
}

ExecContext::ExecContext(int num_threads, Device device,
                         const DeviceOptions& options)
    : device_(device),
      kind_(device.kind),
      pool_(num_threads),
      device_backend_(device.kind == DeviceKind::cpu
                          ? nullptr
                          : make_device_backend(device, options)),
      workspace_(device, device_backend_.get()),
      scratch_(static_cast<std::size_t>(num_threads)) {}

ExecContext::ExecContext(std::shared_ptr<Meter> meter)
    : device_{.kind = DeviceKind::meter},
      kind_(meter->stands_for()),
      pool_(1),
      device_backend_(std::move(meter)),
      workspace_(device_, device_backend_.get()),
      scratch_(1) {}

Meter& ExecContext::meter() {
  require(device_.kind == DeviceKind::meter, Errc::internal, "meter",
          "this context computes");
  return static_cast<Meter&>(*device_backend_);
}

ExecContext::~ExecContext() {
  try {
    // What is kept may be let go only behind the work that reads it.
    synchronize();
  } catch (...) {
    // A lost device reads nothing any more.
  }
}

Tensor ExecContext::empty(const Shape& shape, DType dtype) {
  if (!device_backend_) {
    return Tensor(shape, dtype);
  }
  return {device_backend_->allocate(checked_bytes(shape, dtype)), shape, dtype,
          device_};
}

void ExecContext::synchronize() {
  if (device_backend_) {
    device_backend_->synchronize();
    kept_.clear();
  }
}

QueueMark ExecContext::mark() {
  if (!device_backend_) {
    return {};
  }
  std::unique_ptr<DeviceEvent> event = device_backend_->mark();
  return {std::move(event), std::exchange(kept_, {})};
}

void ExecContext::keep(const Tensor& tensor) {
  if (device_backend_) {
    kept_.push_back(tensor);
  }
}

void ExecContext::replay(const std::shared_ptr<const void>& owner,
                         std::span<const std::uint64_t> key,
                         const std::function<void()>& fn) {
  if (!device_backend_) {
    fn();
    return;
  }
  const auto forget = [&] {
    device_backend_->forget_recordings();
    replayed_.clear();
  };
  if (replayed_generation_ != workspace_.generation()) {
    replayed_generation_ = workspace_.generation();
    forget();
  }
  const Workspace::Position at = workspace_.position();
  std::vector<std::uint64_t> whole = {
      static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(owner.get())),
      at.chunk, at.used};
  whole.insert(whole.end(), key.begin(), key.end());
  if (replayed_.size() >= kMostReplayed && !replayed_.contains(whole)) {
    forget();
  }
  replayed_[whole].owner = owner;
  const std::uint64_t before = ticks_;
  if (device_backend_->replay(whole, fn)) {
    // A replay inside fn may have forgotten everything.
    replayed_[whole] = {owner, ticks_ - before};
  } else {
    tick(replayed_[whole].ticks);
  }
}

std::byte* ExecContext::scratch(int thread, std::size_t bytes) {
  Tensor& buffer = scratch_[static_cast<std::size_t>(thread)];
  if (buffer.num_bytes() < bytes) {
    buffer = bytes_tensor(rounded_up(bytes));
  }
  return buffer.bytes().data();
}

std::size_t ExecContext::scratch_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const Tensor& buffer : scratch_) {
    bytes += buffer.num_bytes();
  }
  return bytes;
}

void with_ranks(ExecContext& ctx, const ShardTeam::Pass& pass) {
  if (ctx.team() != nullptr) {
    return ctx.team()->run(pass);
  }
  ShardContext whole;
  pass(ctx, whole);
}

void ExecContext::tick(std::uint64_t rows) {
  ticks_.fetch_add(rows, std::memory_order_relaxed);
  require(!stop_requested_, Errc::interrupted, "run", "stop was requested");
  if (followed_ != nullptr) {
    followed_->tick(rows);
  }
}

}  // namespace troupe
