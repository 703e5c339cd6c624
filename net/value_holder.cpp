#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "net/value_transfer.h"

namespace troupe::net {
namespace {

/// Questions of an asker that is silent for this long are forgotten. A live
/// asker sends more often.
constexpr Duration kForgetAfter = std::chrono::seconds(30);
/// The most credit that counts, however much an asker grants.
constexpr std::uint64_t kMostCredit = std::uint64_t{16} << 20U;

}  // namespace

std::vector<HolderCommand> ValueHolder::on(const HolderEvent& event,
                                           TimePoint now) {
  std::visit(
      [&](const auto& it) {
        using Event = std::decay_t<decltype(it)>;
        if constexpr (std::is_same_v<Event, FrameArrived>) {
          if (it.head.kind == FrameKind::want) {
            want(it, now);
          } else if (it.head.kind == FrameKind::done) {
            const auto at = open_.find(it.head.a);
            if (at != open_.end()) {
              forget(at);
            }
          }
        } else if constexpr (std::is_same_v<Event, GiveValue>) {
          give(it);
        } else if constexpr (std::is_same_v<Event, GiveNothing>) {
          give_nothing(it.want);
        } else if constexpr (std::is_same_v<Event, Woken>) {
          sweep(now);
        } else {
          while (!open_.empty()) {
            forget(open_.begin());
          }
        }
      },
      event);
  return std::exchange(commands_, {});
}

void ValueHolder::sweep(TimePoint now) {
  if (!sweep_due_ || now < *sweep_due_) {
    return;
  }
  sweep_due_ = now + kForgetAfter;
  for (auto at = open_.begin(); at != open_.end();) {
    const auto here = at++;
    if (now >= here->second.last_heard + kForgetAfter) {
      forget(here);
    }
  }
}

void ValueHolder::forget(Open::iterator at) {
  if (!at->second.value) {
    transfers_.erase(at->second.want);
  }
  open_.erase(at);
}

void ValueHolder::want(const FrameArrived& frame, TimePoint now) {
  const FrameHead& head = frame.head;
  auto at = open_.find(head.a);
  if (at == open_.end()) {
    at = begin(frame);
    if (at == open_.end()) {
      return;
    }
    if (open_.size() == 1) {
      sweep_due_ = now + kForgetAfter;
    }
  }
  Answer& answer = at->second;
  if (head.d < answer.round) {
    return;
  }
  answer.last_heard = now;
  const bool is_new_round = head.d > answer.round;
  answer.round = head.d;
  if (is_new_round && answer.value) {
    // Never beyond what was sent before: the hash runs along.
    answer.sent = std::min(head.b, answer.hashed);
    answer.is_whole = false;
    if ((head.flags & kNotFound) != 0) {
      send_found(head.a, answer);
    }
  }
  const std::uint64_t most =
      std::min(head.b, std::numeric_limits<std::uint64_t>::max() - kMostCredit);
  answer.until = std::max(answer.until, std::min(head.c, most + kMostCredit));
  const std::size_t before = commands_.size();
  if (answer.value) {
    send_chunks(head.a, answer);
  }
  if ((head.flags & kProbe) != 0 && commands_.size() == before) {
    commands_.emplace_back(Transmit{{.kind = FrameKind::here,
                                     .a = head.a,
                                     .b = answer.value ? answer.sent + 1 : 0,
                                     .c = answer.round},
                                    {}});
  }
}

/// Registers a new question; end() if the frame is not a question.
ValueHolder::Open::iterator ValueHolder::begin(const FrameArrived& frame) {
  const FrameHead& head = frame.head;
  if ((head.flags & kNotFound) == 0 || head.b != 0) {
    commands_.emplace_back(Transmit{
        {.kind = FrameKind::gone, .flags = kUnknown, .a = head.a, .c = head.d},
        {}});
    return open_.end();
  }
  if (head.a == 0 || frame.payload.size() > kMostKeyBytes ||
      open_.size() >= 2 * kMostOpenWants) {
    return open_.end();
  }
  Answer answer;
  answer.want = next_want_++;
  answer.round = head.d;
  transfers_.emplace(answer.want, head.a);
  commands_.emplace_back(
      Wanted{answer.want, std::string(text_of(frame.payload))});
  return open_.emplace(head.a, std::move(answer)).first;
}

void ValueHolder::give(const GiveValue& event) {
  const auto found = transfers_.find(event.want);
  if (found == transfers_.end()) {
    return;  // nobody wants it any more
  }
  const std::uint64_t transfer = found->second;
  transfers_.erase(found);
  Answer& answer = open_.at(transfer);
  for (const SharedBytes& part : event.value) {
    answer.total += part.size;
    answer.ends.push_back(answer.total);
  }
  answer.value = event.value;
  answer.hash = std::make_unique<Xxh3Stream>();
  send_found(transfer, answer);
  send_chunks(transfer, answer);
}

void ValueHolder::give_nothing(WantId want) {
  const auto found = transfers_.find(want);
  if (found == transfers_.end()) {
    return;
  }
  const auto at = open_.find(found->second);
  commands_.emplace_back(Transmit{
      {.kind = FrameKind::gone, .a = at->first, .c = at->second.round}, {}});
  transfers_.erase(found);
  open_.erase(at);
}

void ValueHolder::send_found(std::uint64_t transfer, const Answer& answer) {
  std::string sizes;
  for (const SharedBytes& part : *answer.value) {
    const std::uint64_t size = part.size;
    sizes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  commands_.emplace_back(Transmit{{.kind = FrameKind::found,
                                   .a = transfer,
                                   .b = answer.total,
                                   .c = answer.round},
                                  share(std::move(sizes))});
}

void ValueHolder::send_chunks(std::uint64_t transfer, Answer& answer) {
  while (!answer.is_whole &&
         (answer.sent < std::min(answer.until, answer.total) ||
          answer.total == 0)) {
    send_chunk(transfer, answer);
  }
}

/// The next bytes, at most to the end of their part: sent without a copy.
void ValueHolder::send_chunk(std::uint64_t transfer, Answer& answer) {
  SharedBytes bytes;
  if (answer.total > 0) {
    const auto end =
        std::upper_bound(answer.ends.begin(), answer.ends.end(), answer.sent);
    const SharedBytes& part =
        (*answer.value)[static_cast<std::size_t>(end - answer.ends.begin())];
    const std::uint64_t offset = part.size - (*end - answer.sent);
    bytes.size =
        std::min({kChunkBytes, *end - answer.sent, answer.until - answer.sent});
    bytes.data = {part.data, part.data.get() + offset};
    if (answer.sent + bytes.size > answer.hashed) {
      answer.hash->update(bytes.span().subspan(answer.hashed - answer.sent));
      answer.hashed = answer.sent + bytes.size;
    }
  }
  FrameHead head{.kind = FrameKind::chunk,
                 .a = transfer,
                 .b = answer.sent,
                 .c = answer.round};
  answer.sent += bytes.size;
  if (answer.sent == answer.total) {
    answer.is_whole = true;
    head.flags = kLast;
    head.value_hash = answer.hash->digest();
  }
  commands_.emplace_back(Transmit{head, std::move(bytes)});
}

}  // namespace troupe::net
