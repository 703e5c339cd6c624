#include "actors/remote/link_channel.h"

#include <array>
#include <charconv>
#include <cstring>
#include <span>

#include "actors/wire/parcel_codec.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

/// Who asks before a value is made waits until it is. What is lost ends sooner:
/// with its holder's lease, or when its run is over.
constexpr auto kDeadline = std::chrono::hours(24);

std::uint64_t num_bytes(const Parcel& parcel) {
  std::uint64_t bytes = 0;
  for (const NamedTensor& named : parcel) {
    bytes += named.tensor.num_bytes();
  }
  return bytes;
}

std::optional<Parcel> parcel_of(net::Fetched fetched) {
  if (fetched.status == net::FetchStatus::found) {
    try {
      return from_link(fetched.value);
    } catch (const Error& error) {
      log_message(LogLevel::warning, error.what());
    }
  } else if (fetched.status != net::FetchStatus::gone &&
             fetched.status != net::FetchStatus::lost) {
    log_message(LogLevel::warning, fetched.what);
  }
  return std::nullopt;
}

}  // namespace

net::Value to_link(const Parcel& parcel) {
  net::Value value = {net::share(wire::encode_outline(parcel))};
  for (const NamedTensor& named : parcel) {
    if (!named.tensor.empty()) {
      value.push_back(net::share(named.tensor));
    }
  }
  return value;
}

Parcel from_link(const net::Value& value) {
  require(!value.empty(), Errc::corrupt_file, "value", "it has no parts");
  std::vector<wire::Elements> elements;
  for (const net::SharedBytes& part : std::span(value).subspan(1)) {
    elements.push_back({part.data, part.size});
  }
  return wire::decode_outline(value.front().span(), elements);
}

std::string key_of(int holder, const ValueName& name) {
  return std::to_string(holder) + "/" + std::to_string(name.sample_index) +
         "/" + std::to_string(name.run) + "/" + std::to_string(name.slot);
}

std::optional<std::pair<int, ValueName>> question_of(std::string_view key) {
  int holder = 0;
  ValueName name;
  const char* at = key.data();
  const char* const end = at + key.size();
  const auto read = [&](auto& number, bool is_last) {
    const auto [next, error] = std::from_chars(at, end, number);
    const bool fits = error == std::errc() &&
                      (is_last ? next == end : next != end && *next == '/');
    at = is_last ? next : next + 1;
    return fits;
  };
  const bool is_question = read(holder, false) &&
                           read(name.sample_index, false) &&
                           read(name.run, false) && read(name.slot, true);
  return is_question && holder >= 0 ? std::optional(std::pair(holder, name))
                                    : std::nullopt;
}

LinkChannel::LinkChannel(std::shared_ptr<ValueChannel> own,
                         std::optional<int> relay)
    : own_(std::move(own)), relay_(relay) {}

void LinkChannel::open(net::Hub& hub, int own_process) {
  const std::lock_guard lock(state_->mutex);
  state_->hub = &hub;
  state_->own_process = own_process;
}

void LinkChannel::close() {
  const std::lock_guard lock(state_->mutex);
  state_->hub = nullptr;
}

void LinkChannel::set_peer(int process, net::PeerId peer) {
  const std::lock_guard lock(state_->mutex);
  state_->peers[process] = peer;
}

void LinkChannel::remove_peer(int process) {
  const std::lock_guard lock(state_->mutex);
  state_->peers.erase(process);
}

void LinkChannel::get(int holder, const ValueName& name, Taker taker) {
  std::unique_lock lock(state_->mutex);
  if (holder == state_->own_process) {
    lock.unlock();
    own_->get(holder, name, std::move(taker));
    return;
  }
  auto peer = state_->peers.find(holder);
  if (peer == state_->peers.end() && relay_) {
    peer = state_->peers.find(*relay_);
  }
  if (state_->hub == nullptr || peer == state_->peers.end()) {
    lock.unlock();
    taker(std::nullopt);
    return;
  }
  net::FetchOptions options;
  options.most_bytes = wire::kMostParcelBytes;
  options.deadline = kDeadline;
  (void)state_->hub->fetch(
      peer->second, key_of(holder, name), options,
      [state = state_, taker = std::move(taker)](net::Fetched fetched) {
        std::optional<Parcel> parcel = parcel_of(std::move(fetched));
        if (parcel) {
          const std::lock_guard count(state->mutex);
          state->bytes_fetched += num_bytes(*parcel);
        }
        taker(std::move(parcel));
      });
}

bool LinkChannel::answer(net::WantId want, std::string_view key) {
  const auto question = question_of(key);
  if (!question) {
    return false;
  }
  get(question->first, question->second,
      [state = state_, want](const std::optional<Parcel>& parcel) {
        const std::lock_guard lock(state->mutex);
        if (state->hub == nullptr) {
          return;
        }
        if (!parcel) {
          state->hub->give_nothing(want);
          return;
        }
        try {
          state->hub->give(want, to_link(*parcel));
          state->bytes_given += num_bytes(*parcel);
        } catch (const Error& error) {
          log_message(LogLevel::warning, error.what());
          state->hub->give_nothing(want);
        }
      });
  return true;
}

std::uint64_t LinkChannel::bytes_given() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_given;
}

std::uint64_t LinkChannel::bytes_fetched() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_fetched;
}

}  // namespace troupe::actors
