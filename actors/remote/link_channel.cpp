#include "actors/remote/link_channel.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>

#include "actors/remote/peer_routes.h"
#include "actors/wire/codec.h"
#include "kernels/core/clock.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"

namespace troupe::actors {

/// The questions of a channel over links, and the ways that they go.
class LinkChannel::State : public std::enable_shared_from_this<State> {
 public:
  /// For what comes piece by piece, however slow the link is. What does not
  /// come ends sooner: with LinkChannelOptions::silence, with its holder's
  /// lease, or when its run is over.
  static constexpr auto kDeadline = std::chrono::hours(24);
  /// What no measurement falls below.
  static constexpr Duration kLeastWay = std::chrono::microseconds(1);

  struct Question {
    int holder = 0;
    ValueName name;
    Taker taker;
    bool came_damaged = false;  ///< from its holder
  };

  State(std::shared_ptr<ValueChannel> its_own, LinkChannelOptions its_options)
      : options(std::move(its_options)), own(std::move(its_own)) {}

  void get(int holder, const ValueName& name, Taker taker) {
    if (holder == own_process()) {
      own->get(holder, name, std::move(taker));
    } else {
      ask({holder, name, std::move(taker)}, false);
    }
  }

  /// Asks again for a value that came damaged from `holder`. Another holder is
  /// asked first, if the coordinator knows one.
  void get_again(int holder, const ValueName& name, const Taker& taker) {
    options.find_other(name, holder,
                       [self = shared_from_this(), holder, name,
                        taker](const std::optional<int>& other) {
                         if (!other) {
                           self->get(holder, name, taker);
                           return;
                         }
                         self->get(*other, name,
                                   [self, holder, name, taker](
                                       const std::optional<Parcel>& parcel) {
                                     if (parcel) {
                                       taker(parcel);
                                     } else {
                                       self->get(holder, name, taker);
                                     }
                                   });
                       });
  }

  /// `relays`: whatever links there are.
  void ask(Question question, bool relays) {
    {
      const std::lock_guard lock(mutex);
      if (hub != nullptr && send(question, relays)) {
        return;
      }
    }
    question.taker(std::nullopt);
  }

  /// Something was heard of a process: questions that wait for it are asked
  /// again.
  void settle(int process) {
    std::map<int, std::vector<Again>>::node_type questions;
    {
      const std::lock_guard lock(mutex);
      questions = waiting.extract(process);
    }
    if (questions) {
      for (const Again& again : questions.mapped()) {
        again(*this);
      }
    }
  }

  /// What no other process can be asked for.
  void ask_itself(int process, const ValueKey& key,
                  const net::FetchOptions& fetch,
                  const net::FetchTaker& taker) {
    {
      const std::lock_guard lock(mutex);
      const PeerRoutes::Route route =
          hub == nullptr ? PeerRoutes::Route{} : way_to(process);
      if (route.way == PeerRoutes::Way::wait) {
        waiting[process].push_back([=](State& state) {
          state.ask_itself(process, key, fetch, taker);
        });
        return;
      }
      if (route.way == PeerRoutes::Way::direct) {
        hub->fetch(route.peer, wire::encode(key), fetch, taker);
        return;
      }
    }
    taker({net::FetchStatus::lost,
           {},
           "no link to process " + std::to_string(process)});
  }

  /// Of a link: fetches the values of kProbes in turn.
  struct Measurement {
    int process = 0;
    std::function<void(const std::optional<LinkPace>&)> then;
    std::size_t step = 0;
    LinkPace pace = {};
  };
  static constexpr std::array<std::size_t, 3> kProbes = {1, 64U << 10U,
                                                         kMostProbeBytes};

  void probe(const std::shared_ptr<Measurement>& of) {
    net::FetchOptions fetch;
    fetch.most_bytes = kMostProbeBytes;
    fetch.deadline = kProbePatience;
    const TimePoint begun = clock.now();
    ask_itself(
        of->process, ProbeKey{kProbes[of->step]}, fetch,
        [self = shared_from_this(), of, begun](const net::Fetched& fetched) {
          self->probed(of, self->clock.now() - begun, fetched.status);
        });
  }

  void probed(const std::shared_ptr<Measurement>& of, Duration taken,
              net::FetchStatus status) {
    // A connection finds its speed within some round trips.
    constexpr int kTripsToSpeed = 4;
    constexpr Duration kLongWay = std::chrono::milliseconds(2);
    const bool is_there = status == net::FetchStatus::found;
    const Duration trip = of->pace.round_trip;
    if (of->step == 0) {
      of->pace.round_trip = taken;
    } else if (is_there || status == net::FetchStatus::late) {
      const Duration way = std::max<Duration>(taken - trip, kLeastWay);
      of->pace.bytes_per_second = static_cast<double>(kProbes[of->step]) /
                                  std::chrono::duration<double>(way).count();
    }
    const bool has_shown_speed =
        of->step > 0 && (trip < kLongWay || taken > kTripsToSpeed * trip);
    if (is_there && !has_shown_speed && of->step + 1 < kProbes.size()) {
      ++of->step;
      probe(of);
      return;
    }
    of->then(of->pace.bytes_per_second > 0 ? std::optional(of->pace)
                                           : std::nullopt);
  }

  [[nodiscard]] int own_process() {
    const std::lock_guard lock(mutex);
    return routes.own_process();
  }

  [[nodiscard]] bool is_of_job(const RunValueKey& key) {
    const std::lock_guard lock(mutex);
    return key.job == job;
  }

  /// Under the mutex.
  void carry_out(const PeerRoutes::Moves& moves) {
    if (hub == nullptr) {
      return;
    }
    for (const net::PeerId peer : moves.leave) {
      hub->leave(peer, "this link is not needed");
    }
    if (moves.dial) {
      net::DialOptions dial = options.dial;
      dial.record = wire::encode(moves.dial->greeting);
      try {
        routes.dialled(moves.dial->process,
                       hub->dial(moves.dial->endpoint, std::move(dial)));
      } catch (const Error& error) {
        log_message(LogLevel::warning, error.what());
        carry_out(routes.not_dialled(moves.dial->process, clock.now()));
      }
    }
  }

  const LinkChannelOptions options;
  const std::shared_ptr<ValueChannel> own;
  const SteadyClock clock;
  std::mutex mutex;
  net::Hub* hub = nullptr;
  std::uint64_t job = 0;
  PeerRoutes routes;
  /// Questions that wait for a link to a process: each is asked again.
  using Again = std::function<void(State&)>;
  std::map<int, std::vector<Again>> waiting;
  /// Whose values came damaged, and nothing has come well since.
  std::map<int, std::string> suspects;
  std::uint64_t bytes_given = 0;
  std::uint64_t bytes_fetched = 0;
  std::uint64_t bytes_relayed = 0;

 private:
  /// Under the mutex. Makes a link if there is none and one can be made.
  [[nodiscard]] PeerRoutes::Route way_to(int process) {
    PeerRoutes::Route route = routes.ask(process, clock.now());
    carry_out(route.moves);
    if (route.way == PeerRoutes::Way::wait) {
      route = routes.ask(process, clock.now());  // can it be dialled?
    }
    return route;
  }

  /// Under the mutex. False, and the question is as before, if no process can
  /// be asked.
  [[nodiscard]] bool send(Question& question, bool relays) {
    PeerRoutes::Route route;
    if (!relays) {
      route = way_to(question.holder);
    }
    if (route.way == PeerRoutes::Way::wait) {
      waiting[question.holder].push_back(
          [question](State& state) { state.ask(question, false); });
      return true;
    }
    const bool is_direct = route.way == PeerRoutes::Way::direct;
    if (!is_direct && options.relay) {
      route = routes.ask(*options.relay, clock.now());
    }
    if (route.way != PeerRoutes::Way::direct) {
      return false;
    }
    net::FetchOptions fetch;
    fetch.most_bytes = wire::kMostParcelBytes;
    fetch.deadline = kDeadline;
    fetch.silence = is_direct ? options.silence : 2 * options.silence;
    std::string key = wire::encode(RunValueKey{
        job, question.holder, question.name, question.came_damaged});
    hub->fetch(route.peer, std::move(key), fetch,
               [state = shared_from_this(), is_direct,
                question = std::move(question)](net::Fetched fetched) {
                 state->answered(question, is_direct, fetched);
               });
    return true;
  }

  void answered(const Question& question, bool is_direct,
                net::Fetched& fetched) {
    if (fetched.status == net::FetchStatus::found) {
      try {
        const Parcel parcel = from_link(fetched.value);
        {
          const std::lock_guard lock(mutex);
          bytes_fetched += num_bytes(parcel);
        }
        question.taker(parcel);
        if (!is_direct) {
          blame(question.holder);
        }
        return;
      } catch (const Error& error) {
        fetched = {net::FetchStatus::corrupt, {}, error.what()};
      }
    }
    const bool is_damaged = fetched.status == net::FetchStatus::corrupt;
    const bool has_not_come = fetched.status == net::FetchStatus::lost ||
                              fetched.status == net::FetchStatus::late;
    if (is_damaged) {
      // The relay has found the value whole: the last stretch has damaged it.
      damaged(is_direct ? question.holder : *options.relay, fetched.what);
    } else if (fetched.status != net::FetchStatus::lost &&
               fetched.status != net::FetchStatus::gone) {
      log_message(LogLevel::warning, fetched.what);
    }
    if ((has_not_come || is_damaged) && is_direct &&
        may_relay(question.holder)) {
      ask({question.holder, question.name, question.taker, is_damaged}, true);
    } else {
      question.taker(std::nullopt);
    }
  }

  [[nodiscard]] bool may_relay(int holder) const {
    return options.relay && holder != *options.relay;
  }

  void damaged(int process, const std::string& what) {
    const std::string sentence = "a value of process " +
                                 std::to_string(process) +
                                 " came damaged: " + what;
    log_message(LogLevel::warning, sentence);
    if (may_relay(process)) {
      const std::lock_guard lock(mutex);
      suspects.try_emplace(process, sentence);
      carry_out(routes.distrust(process));
    } else if (options.on_damage) {
      options.on_damage(process, sentence);
    }
  }

  /// The value has come whole by another way. So the first holder had damaged
  /// the value, and the reader is not at fault.
  void blame(int process) {
    std::map<int, std::string>::node_type suspect;
    {
      const std::lock_guard lock(mutex);
      suspect = suspects.extract(process);
    }
    if (suspect && options.on_damage) {
      options.on_damage(process, suspect.mapped());
    }
  }
};

LinkChannel::LinkChannel(std::shared_ptr<ValueChannel> own,
                         LinkChannelOptions options)
    : state_(std::make_shared<State>(std::move(own), std::move(options))) {}

LinkChannel::~LinkChannel() = default;

void LinkChannel::open(net::Hub& hub, int own_process, PeerTokens tokens) {
  const std::lock_guard lock(state_->mutex);
  state_->hub = &hub;
  state_->routes.begin(own_process, std::move(tokens));
}

void LinkChannel::set_job(std::uint64_t job) {
  const std::lock_guard lock(state_->mutex);
  state_->job = job;
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
      hub.refuse(peer, "this process accepts processes of its job only");
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

void LinkChannel::ask(int process, const ValueKey& key,
                      const net::FetchOptions& options,
                      const net::FetchTaker& taker) {
  state_->ask_itself(process, key, options, taker);
}

void LinkChannel::measure(
    int process, std::function<void(const std::optional<LinkPace>&)> then) {
  state_->probe(std::make_shared<State::Measurement>(
      State::Measurement{process, std::move(then)}));
}

std::vector<int> LinkChannel::model_givers() const {
  const std::lock_guard lock(state_->mutex);
  return state_->routes.model_givers();
}

bool LinkChannel::answer(net::WantId want, const ValueKey& key) {
  if (const auto* const probe = std::get_if<ProbeKey>(&key)) {
    const std::lock_guard lock(state_->mutex);
    if (state_->hub != nullptr) {
      state_->hub->give(want, {net::share(std::string(probe->bytes, '\0'))});
    }
    return true;
  }
  if (const auto* const pace = std::get_if<PaceKey>(&key);
      pace != nullptr && state_->options.relay) {
    measure(pace->process,
            [state = state_, want](const std::optional<LinkPace>& pace) {
              const std::lock_guard lock(state->mutex);
              if (state->hub != nullptr && pace) {
                state->hub->give(want, to_link(*pace));
              } else if (state->hub != nullptr) {
                state->hub->give_nothing(want);
              }
            });
    return true;
  }
  const auto* const asked = std::get_if<RunValueKey>(&key);
  if (asked == nullptr || !state_->is_of_job(*asked)) {
    return false;
  }
  const bool is_own = asked->holder == state_->own_process();
  if ((!is_own || asked->came_damaged) && state_->options.relay) {
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
  if (asked->came_damaged && state_->options.find_other) {
    state_->get_again(asked->holder, asked->name, give);
  } else {
    get(asked->holder, asked->name, give);
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
