#include "tests/cuda/emulator/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/cuda/emulator/machine.h"

namespace troupe::emulator {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kAlignment = 256;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Each address has a shadow.
constexpr std::size_t kArenaBytes = std::size_t{1} << 36U;
#else
constexpr std::size_t kArenaBytes = std::size_t{1} << 40U;
#endif
/// A NaN in every float type, and an index far out of every range.
constexpr int kFresh = 0xff;
constexpr std::byte kAround{0xc5};

std::size_t rounded_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

void must(bool holds, const char* what) {
  if (!holds) {
    report_bug(std::string("the emulator cannot ") + what);
  }
}

/// Of at most a page.
bool is_untouched(const std::byte* begin, const std::byte* end) {
  static const std::vector<std::byte> pattern(kPage, kAround);
  return std::memcmp(begin, pattern.data(),
                     static_cast<std::size_t>(end - begin)) == 0;
}

}  // namespace

std::byte* Arena::promise(int device, std::size_t bytes) {
  if (base_ == nullptr) {
    void* memory = mmap(nullptr, kArenaBytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    must(memory != MAP_FAILED, "reserve addresses");
    base_ = static_cast<std::byte*>(memory);
  }
  const std::size_t page_bytes = rounded_up(bytes, kPage);
  // A page before and behind stays closed.
  const std::size_t step = page_bytes + 2 * kPage;
  must(step < kArenaBytes, "hold an allocation of this size");
  for (int walks = 0;;) {
    if (next_ + step > kArenaBytes) {
      next_ = 0;
      must(++walks < 2, "find addresses");
    }
    std::byte* pages = base_ + next_ + kPage;
    const auto after = allocations_.upper_bound(pages);
    const bool is_free_behind = after == allocations_.end() ||
                                after->second.pages >= pages + page_bytes;
    const bool is_free_before =
        after == allocations_.begin() ||
        std::prev(after)->second.pages + std::prev(after)->second.page_bytes <=
            pages;
    if (is_free_before && is_free_behind) {
      next_ += page_bytes + kPage;
      std::byte* start = pages + page_bytes - rounded_up(bytes, kAlignment);
      allocations_[start] = {device, bytes, pages, page_bytes};
      return start;
    }
    next_ += kPage;
  }
}

void Arena::activate(std::byte* start) {
  Allocation& allocation = allocations_.at(start);
  allocation.is_live = true;
  protect(start, allocation, true);
  std::fill(allocation.pages, start, kAround);
  std::memset(start, kFresh, allocation.bytes);
  std::fill(start + allocation.bytes, allocation.pages + allocation.page_bytes,
            kAround);
  if ((opened_ & bit(allocation.device)) == 0) {
    protect(start, allocation, false);
  }
}

void Arena::remove(std::byte* start) {
  const auto found = allocations_.find(start);
  if (found->second.is_live) {
    protect(start, found->second, true);
    check(start, found->second, true);
  }
  release(found);
}

void Arena::release(Allocations::iterator allocation) {
  // Fresh closed pages: they join their neighbours into one mapping again.
  void* memory =
      mmap(allocation->second.pages, allocation->second.page_bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  must(memory != MAP_FAILED, "release memory");
  open_.erase(allocation->first);
  allocations_.erase(allocation);
}

void Arena::remove_device(int device) {
  for (auto at = allocations_.begin(); at != allocations_.end();) {
    const auto now = at++;
    if (now->second.device == device) {
      release(now);
    }
  }
}

Arena::Allocation* Arena::find(const void* address) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(address));
  auto after = allocations_.upper_bound(bytes);
  if (after == allocations_.begin()) {
    return nullptr;
  }
  --after;
  return bytes < after->first + std::max<std::size_t>(after->second.bytes, 1)
             ? &after->second
             : nullptr;
}

Arena::Allocation* Arena::find_start(const void* start) {
  const auto found =
      allocations_.find(static_cast<std::byte*>(const_cast<void*>(start)));
  return found == allocations_.end() ? nullptr : &found->second;
}

bool Arena::holds(const void* address, std::size_t bytes) {
  const Allocation* allocation = find(address);
  if (allocation == nullptr || allocation->is_freed) {
    return false;
  }
  const std::byte* end = allocation->pages + allocation->page_bytes -
                         rounded_up(allocation->bytes, kAlignment) +
                         allocation->bytes;
  return static_cast<const std::byte*>(address) + bytes <= end;
}

bool Arena::is_inside(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  return base_ != nullptr && at >= base_ && at < base_ + kArenaBytes;
}

std::size_t Arena::bytes_in_use(int device) const {
  std::size_t total = 0;
  for (const auto& [start, allocation] : allocations_) {
    if (allocation.device == device) {
      total += rounded_up(allocation.bytes, kAlignment);
    }
  }
  return total;
}

void Arena::protect(std::byte* start, Allocation& allocation, bool is_open) {
  if (open_.contains(start) == is_open) {
    return;
  }
  must(mprotect(allocation.pages, allocation.page_bytes,
                is_open ? PROT_READ | PROT_WRITE : PROT_NONE) == 0,
       "change the protection of memory");
  if (is_open) {
    open_.insert(start);
  } else {
    open_.erase(start);
  }
}

void Arena::open(std::uint64_t mask) {
  opened_ = mask;
  for (auto at = open_.begin(); at != open_.end();) {
    std::byte* start = *at++;
    Allocation& allocation = allocations_.at(start);
    if ((mask & bit(allocation.device)) == 0) {
      protect(start, allocation, false);
    }
  }
}

bool Arena::open_touched(const void* address) {
  auto* byte = static_cast<std::byte*>(const_cast<void*>(address));
  // The bytes before an allocation's start are of its pages, too.
  auto at = allocations_.upper_bound(byte);
  if (at == allocations_.end() || byte < at->second.pages) {
    if (at == allocations_.begin()) {
      return false;
    }
    --at;
  }
  Allocation& it = at->second;
  if (!it.is_live || byte >= it.pages + it.page_bytes ||
      (opened_ & bit(it.device)) == 0 || open_.contains(at->first)) {
    return false;
  }
  protect(at->first, it, true);
  return true;
}

void Arena::check_surroundings() {
  for (std::byte* start : open_) {
    check(start, allocations_.at(start), false);
  }
}

void Arena::check(std::byte* start, const Allocation& allocation, bool whole) {
  const std::byte* before =
      whole ? allocation.pages : std::max(allocation.pages, start - kAlignment);
  if (!is_untouched(before, start)) {
    report_bug("something wrote before the start of " +
               std::to_string(allocation.bytes) + " bytes of device memory");
  }
  if (!is_untouched(start + allocation.bytes,
                    allocation.pages + allocation.page_bytes)) {
    report_bug("something wrote behind the end of " +
               std::to_string(allocation.bytes) + " bytes of device memory");
  }
}

}  // namespace troupe::emulator
