#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/tensor.h"
#include "net/value_transfer.h"

namespace troupe::net {
namespace {

constexpr Duration kPatience = std::chrono::milliseconds(250);
/// While the value may not be made yet.
constexpr Duration kLongestPatience = std::chrono::seconds(2);
constexpr std::size_t kPartAlignment = 64;

[[nodiscard]] std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

}  // namespace

std::vector<AskerCommand> ValueAsker::on(const AskerEvent& event,
                                         TimePoint now) {
  std::visit(
      [&](const auto& it) {
        using Event = std::decay_t<decltype(it)>;
        if constexpr (std::is_same_v<Event, FrameArrived>) {
          arrived(it, now);
        } else if constexpr (std::is_same_v<Event, Woken>) {
          woken(now);
        } else if constexpr (std::is_same_v<Event, AskFor>) {
          waiting_.push_back(it);
          check_due_ = std::min(check_due_.value_or(it.deadline), it.deadline);
          open_waiting(now);
        } else {
          while (!waiting_.empty()) {
            answer(waiting_.front().fetch, FetchStatus::lost, it.what);
            waiting_.pop_front();
          }
          while (!open_.empty()) {
            end(open_.begin(), FetchStatus::lost, it.what, now);
          }
        }
      },
      event);
  return std::exchange(commands_, {});
}

std::optional<TimePoint> ValueAsker::next_deadline() const {
  return num_open() == 0 ? std::nullopt : check_due_;
}

void ValueAsker::open_waiting(TimePoint now) {
  while (!waiting_.empty() && open_.size() < kMostOpenWants) {
    Transfer& transfer = open_[waiting_.front().fetch];
    transfer.ask = std::move(waiting_.front());
    waiting_.pop_front();
    transfer.hash = std::make_unique<Xxh3Stream>();
    sign_of_life(transfer, now);
    want(transfer, kNotFound);
  }
}

void ValueAsker::sign_of_life(Transfer& transfer, TimePoint now) {
  transfer.patience = kPatience;
  transfer.probe_due = now + kPatience;
  transfer.heard = now;
  check_due_ =
      std::min(check_due_.value_or(transfer.probe_due), transfer.probe_due);
}

void ValueAsker::want(Transfer& transfer, std::uint8_t flags) {
  const bool with_key = (flags & kNotFound) != 0;
  commands_.emplace_back(
      Transmit{{.kind = FrameKind::want,
                .flags = flags,
                .a = transfer.ask.fetch,
                .b = transfer.received,
                .c = transfer.until,
                .d = transfer.round},
               with_key ? share(transfer.ask.key) : SharedBytes{}});
}

/// What was sent in the old round and has not arrived is lost, or late.
void ValueAsker::new_round(Transfer& transfer, TimePoint now) {
  ++transfer.round;
  transfer.probe_due = now + transfer.patience;
  want(transfer, transfer.is_found ? std::uint8_t{0} : kNotFound);
}

void ValueAsker::arrived(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  const auto at = open_.find(head.a);
  if (at == open_.end()) {
    if (head.kind == FrameKind::found ||
        (head.kind == FrameKind::here && head.a != 0)) {
      done(head.a);  // our `done` was lost
    }
    return;
  }
  if (head.c != at->second.round) {
    return;  // of an older round
  }
  if (head.kind == FrameKind::found) {
    found(at, frame, now);
  } else if (head.kind == FrameKind::chunk) {
    chunk(at, frame, now);
  } else if (head.kind == FrameKind::gone) {
    gone(at, frame, now);
  } else if (head.kind == FrameKind::here) {
    here(at, frame, now);
  }
}

void ValueAsker::found(Open::iterator at, const FrameArrived& frame,
                       TimePoint now) {
  Transfer& transfer = at->second;
  if (transfer.is_found) {
    return;
  }
  transfer.total = frame.head.b;
  if (transfer.total > transfer.ask.most_bytes) {
    end(at, FetchStatus::too_large,
        "a value of " + peer_ + " has " + std::to_string(transfer.total) +
            " bytes, " + std::to_string(transfer.ask.most_bytes) +
            " were reserved",
        now);
    return;
  }
  try {
    if (!make_parts(transfer, frame.payload)) {
      end(at, FetchStatus::corrupt, peer_ + " describes a value wrongly", now);
      return;
    }
  } catch (const Error& error) {
    end(at, FetchStatus::too_large,
        "a value of " + peer_ + " does not fit: " + error.message(), now);
    return;
  }
  transfer.is_found = true;
  sign_of_life(transfer, now);
  if (transfer.total > transfer.until && !transfer.is_under_way &&
      !transfer.is_queued) {
    transfer.is_queued = true;
    queue_.push_back(at->first);
    start_queued(now);
  }
}

/// Whether the sizes are those of a value of `total` bytes, for which there is
/// memory now. Errors: Errc::out_of_memory.
bool ValueAsker::make_parts(Transfer& transfer,
                            std::span<const std::byte> sizes) {
  const std::size_t count = sizes.size() / sizeof(std::uint64_t);
  if (sizes.size() % sizeof(std::uint64_t) != 0 || count > kMostValueParts) {
    return false;
  }
  std::vector<std::uint64_t> bytes(count);
  if (count > 0) {
    std::memcpy(bytes.data(), sizes.data(), sizes.size());
  }
  std::uint64_t left = transfer.total;
  std::size_t needed = 0;
  for (const std::uint64_t size : bytes) {
    if (size > left) {
      return false;
    }
    left -= size;
    needed += aligned(size);
  }
  if (left != 0) {
    return false;
  }
  const Tensor memory(Shape{static_cast<std::int64_t>(needed)}, DType::u8);
  std::size_t offset = 0;
  for (const std::uint64_t size : bytes) {
    transfer.parts.push_back(
        {std::shared_ptr<std::byte>(memory.owner(),
                                    memory.owner().get() + offset),
         size});
    offset += aligned(size);
  }
  return true;
}

/// Lets the next large values come, as many as may.
void ValueAsker::start_queued(TimePoint now) {
  while (under_way_ < kMostUnderWay && !queue_.empty()) {
    const auto next = open_.find(queue_.front());
    queue_.pop_front();
    if (next != open_.end()) {
      Transfer& transfer = next->second;
      transfer.is_queued = false;
      transfer.is_under_way = true;
      ++under_way_;
      sign_of_life(transfer, now);
      extend_credit(transfer);
    }
  }
}

void ValueAsker::extend_credit(Transfer& transfer) {
  const std::uint64_t until =
      std::min<std::uint64_t>(transfer.total, transfer.received + kValueWindow);
  // Credit grows by half a window, so that few frames are sent.
  if (transfer.is_under_way && until > transfer.until &&
      transfer.until <= transfer.received + kValueWindow / 2) {
    transfer.until = until;
    want(transfer, 0);
  }
}

void ValueAsker::chunk(Open::iterator at, const FrameArrived& frame,
                       TimePoint now) {
  Transfer& transfer = at->second;
  const FrameHead& head = frame.head;
  if (!transfer.is_found || head.b > transfer.received) {
    new_round(transfer, now);
    return;
  }
  if (head.b < transfer.received) {
    return;  // doubled
  }
  const std::size_t size = frame.payload.size();
  const bool is_last = (head.flags & kLast) != 0;
  if (size > transfer.total - transfer.received ||
      (size == 0 && transfer.total > 0) ||
      is_last != (size == transfer.total - transfer.received)) {
    end(at, FetchStatus::corrupt,
        peer_ + " sent a value in pieces that do not fit", now);
    return;
  }
  store(transfer, frame.payload);
  sign_of_life(transfer, now);
  if (!is_last) {
    extend_credit(transfer);
    return;
  }
  const std::uint64_t hash = transfer.hash->digest();
  if (hash == head.value_hash) {
    end(at, FetchStatus::found, {}, now);
  } else {
    end(at, FetchStatus::corrupt,
        "a value from " + peer_ + " has the hash " + to_hex(hash) +
            ", expected " + to_hex(head.value_hash),
        now);
  }
}

void ValueAsker::store(Transfer& transfer, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    SharedBytes& part = transfer.parts[transfer.part];
    const std::size_t size =
        std::min(bytes.size(), part.size - transfer.part_offset);
    if (size > 0) {
      std::byte* to = part.data.get() + transfer.part_offset;
      std::memcpy(to, bytes.data(), size);
      // The hash covers the bytes in memory, not the bytes of the frame.
      transfer.hash->update({to, size});
    }
    transfer.part_offset += size;
    transfer.received += size;
    bytes = bytes.subspan(size);
    if (transfer.part_offset == part.size) {
      ++transfer.part;
      transfer.part_offset = 0;
    }
  }
}

void ValueAsker::gone(Open::iterator at, const FrameArrived& frame,
                      TimePoint now) {
  Transfer& transfer = at->second;
  if ((frame.head.flags & kUnknown) == 0) {
    end(at, FetchStatus::gone, peer_ + " has not got the value", now);
    return;
  }
  // The holder has forgotten the question: the transfer restarts.
  transfer.is_found = false;
  transfer.parts.clear();
  transfer.received = 0;
  transfer.part = 0;
  transfer.part_offset = 0;
  transfer.hash = std::make_unique<Xxh3Stream>();
  new_round(transfer, now);
}

/// The answer to a probe came behind all that was sent before it.
void ValueAsker::here(Open::iterator at, const FrameArrived& frame,
                      TimePoint now) {
  Transfer& transfer = at->second;
  const std::uint64_t sent = frame.head.b;
  // Of a value without bytes the one chunk is missing.
  if (sent > 0 && (!transfer.is_found || transfer.total == 0 ||
                   sent - 1 > transfer.received)) {
    new_round(transfer, now);
  }
}

void ValueAsker::woken(TimePoint now) {
  if (!check_due_ || now < *check_due_) {
    return;
  }
  check_due_.reset();
  const auto note = [&](TimePoint due) {
    check_due_ = std::min(check_due_.value_or(due), due);
  };
  for (auto at = open_.begin(); at != open_.end();) {
    Transfer& transfer = (at++)->second;
    if (now >= transfer.ask.deadline || transfer.is_silent(now)) {
      end(std::prev(at), FetchStatus::late,
          "a value of " + peer_ + " was not here in time", now);
      continue;
    }
    if (now >= transfer.probe_due) {
      want(transfer,
           transfer.is_found ? kProbe : std::uint8_t{kProbe | kNotFound});
      transfer.probe_due = now + transfer.patience;
      if (!transfer.is_found) {
        transfer.patience = std::min(transfer.patience * 2, kLongestPatience);
      }
    }
    note(std::min(transfer.probe_due, transfer.ask.deadline));
  }
  std::erase_if(waiting_, [&](const AskFor& ask) {
    if (now < ask.deadline) {
      note(ask.deadline);
      return false;
    }
    answer(ask.fetch, FetchStatus::late,
           "a value of " + peer_ + " was not asked for in time");
    return true;
  });
}

void ValueAsker::end(Open::iterator at, FetchStatus status,
                     const std::string& what, TimePoint now) {
  const FetchId fetch = at->first;
  Transfer transfer = std::move(at->second);
  open_.erase(at);
  if (status != FetchStatus::gone) {
    done(fetch);
  }
  answer(fetch, status, what);
  if (status == FetchStatus::found) {
    std::get<FetchEnded>(commands_.back()).fetched.value =
        std::move(transfer.parts);
  }
  if (transfer.is_under_way) {
    --under_way_;
    start_queued(now);
  }
  if (status != FetchStatus::lost) {
    open_waiting(now);
  }
}

void ValueAsker::answer(FetchId fetch, FetchStatus status,
                        const std::string& what) {
  commands_.emplace_back(
      FetchEnded{fetch, {.status = status, .value = {}, .what = what}});
}

void ValueAsker::done(FetchId fetch) {
  commands_.emplace_back(Transmit{{.kind = FrameKind::done, .a = fetch}, {}});
}

}  // namespace troupe::net
