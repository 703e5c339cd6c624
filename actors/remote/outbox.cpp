#include "actors/remote/outbox.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

// The first byte of a record.
constexpr char kLast = 0;
constexpr char kMoreFollows = 1;

constexpr std::size_t kPieceBytes = net::kMostRecordBytes - 1;

}  // namespace

void Outbox::send(const std::string& message) {
  const std::lock_guard lock(mutex_);
  std::string_view left = message;
  do {
    const std::string_view piece = left.substr(0, kPieceBytes);
    left.remove_prefix(piece.size());
    std::string record;
    record.reserve(piece.size() + 1);
    record.push_back(left.empty() ? kLast : kMoreFollows);
    record.append(piece);
    num_waiting_ += record.size();
    waiting_.push_back(net::share(std::move(record)));
  } while (!left.empty());
  flush();
}

void Outbox::on_room() {
  const std::lock_guard lock(mutex_);
  flush();
}

std::size_t Outbox::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return num_waiting_;
}

void Outbox::flush() {
  while (!waiting_.empty()) {
    switch (hub_.send(peer_, waiting_.front())) {
      case net::SendResult::queued:
        num_waiting_ -= waiting_.front().size;
        waiting_.pop_front();
        break;
      case net::SendResult::no_room:
        return;
      case net::SendResult::no_peer:
        num_waiting_ = 0;
        waiting_.clear();
        break;
    }
  }
}

std::optional<std::string> Assembler::add(std::span<const std::byte> record,
                                          std::size_t most) {
  const auto* const first = reinterpret_cast<const char*>(record.data());
  require(!record.empty() && (*first == kLast || *first == kMoreFollows),
          Errc::corrupt_file, "message", "a record of an unknown kind");
  require(record.size() - 1 <= most - std::min(message_.size(), most),
          Errc::corrupt_file, "message",
          "too large: got more than " + std::to_string(most) + " bytes");
  message_.append(first + 1, record.size() - 1);
  if (*first == kMoreFollows) {
    return std::nullopt;
  }
  return std::exchange(message_, {});
}

}  // namespace troupe::actors
