#include "actors/remote/link_channel.h"

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/remote/link_channel_state.h"
#include "actors/wire/news_codec.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {

LinkChannel::LinkChannel(std::shared_ptr<ValueChannel> own,
                         LinkChannelOptions options)
    : state_(std::make_shared<State>(std::move(own), std::move(options))) {}

LinkChannel::~LinkChannel() = default;

void LinkChannel::open(net::Hub& hub, int own_process, PeerTokens tokens) {
  const std::lock_guard lock(state_->mutex);
  state_->hub = &hub;
  state_->routes.begin(own_process, std::move(tokens));
}

void LinkChannel::close() {
  std::map<int, std::vector<State::Again>> waiting;
  {
    const std::lock_guard lock(state_->mutex);
    state_->hub = nullptr;
    waiting.swap(state_->waiting);
  }
  for (const auto& [process, questions] : waiting) {
    for (const State::Again& again : questions) {
      again(*state_);  // which says that nobody is there
    }
  }
}

void LinkChannel::set_peer(int process, net::PeerId peer) {
  const std::lock_guard lock(state_->mutex);
  state_->routes.link(process, peer);
}

void LinkChannel::remove_peer(int process) { set_address({process, {}, {}}); }

void LinkChannel::set_address(const PeerAddress& address) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->carry_out(state_->routes.set_address(address));
  }
  state_->settle(address.process);
}

void LinkChannel::accept(net::Hub& hub, net::PeerId peer,
                         const net::Greeting& greeting) {
  try {
    const PeerGreeting theirs =
        wire::decode_peer_greeting(net::bytes_of(greeting.record));
    const std::lock_guard lock(state_->mutex);
    if (const auto ours = state_->routes.accept(peer, theirs)) {
      hub.accept(peer, wire::encode(*ours),
                 "process " + std::to_string(theirs.process));
    } else {
      hub.refuse(peer, "this process lets in processes of its job only");
    }
  } catch (const Error& error) {
    hub.refuse(peer, error.what());
  }
}

void LinkChannel::came_up(net::PeerId peer, const net::Greeting& greeting) {
  PeerGreeting theirs;
  try {
    theirs = wire::decode_peer_greeting(net::bytes_of(greeting.record));
  } catch (const Error&) {
    theirs = {};  // no token is empty: it is left
  }
  std::optional<int> process;
  {
    const std::lock_guard lock(state_->mutex);
    process = state_->routes.process_of(peer);
    state_->carry_out(
        state_->routes.came_up(peer, theirs, state_->clock.now()));
  }
  if (process) {
    state_->settle(*process);
  }
}

void LinkChannel::lost(net::PeerId peer, const std::string& why) {
  std::optional<int> process;
  {
    const std::lock_guard lock(state_->mutex);
    process = state_->routes.process_of(peer);
    state_->carry_out(state_->routes.lost(peer, state_->clock.now()));
  }
  if (process) {
    log_message(LogLevel::info,
                "no link to process " + std::to_string(*process) + ": " + why);
    state_->settle(*process);
  }
}

void LinkChannel::get(int holder, const ValueName& name, Taker taker) {
  state_->get(holder, name, std::move(taker));
}

void LinkChannel::ask(int process, const std::string& key,
                      const net::FetchOptions& options,
                      const net::FetchTaker& taker) {
  state_->ask_itself(process, key, options, taker);
}

std::vector<int> LinkChannel::model_givers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->routes.model_givers();
}

bool LinkChannel::answer(net::WantId want, std::string_view key) {
  const bool is_again = key.starts_with(kAgain);
  const auto question = question_of(key.substr(is_again ? kAgain.size() : 0));
  if (!question) {
    return false;
  }
  const bool is_own = question->first == state_->own_process();
  if ((!is_own || is_again) && state_->options.relay) {
    return false;
  }
  const auto give = [state = state_, want,
                     is_own](const std::optional<Parcel>& parcel) {
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
      state->bytes_relayed += is_own ? 0 : num_bytes(*parcel);
    } catch (const Error& error) {
      log_message(LogLevel::warning, error.what());
      state->hub->give_nothing(want);
    }
  };
  if (is_again && state_->options.find_other) {
    state_->get_again(question->first, question->second, give);
  } else {
    get(question->first, question->second, give);
  }
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

std::uint64_t LinkChannel::bytes_relayed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bytes_relayed;
}

}  // namespace troupe::actors
