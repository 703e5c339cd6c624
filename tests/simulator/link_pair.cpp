#include "tests/simulator/link_pair.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::actors::simulator {
namespace {

/// What has no value of its own: records are padded with it.
const net::SharedBytes& padding(std::size_t bytes) {
  static std::map<std::size_t, net::SharedBytes> made;
  net::SharedBytes& one = made[bytes];
  if (one.size < bytes) {
    one = net::share(std::string(bytes, '\0'));
  }
  return one;
}

template <typename Number>
net::SharedBytes bytes_of_number(Number number, std::size_t bytes) {
  std::string text(std::max(bytes, sizeof(number)), '\0');
  std::memcpy(text.data(), &number, sizeof(number));
  return net::share(std::move(text));
}

template <typename Number>
Number number_of(std::span<const std::byte> bytes) {
  Number number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof(number)));
  return number;
}

/// A symbol, and behind it as many bytes as its value has: most are small, some
/// larger than what a holder may send unasked.
net::Value value_of(Symbol symbol) {
  constexpr std::size_t kLarge = std::size_t{300} << 10U;
  net::Value value = {bytes_of_number(symbol, 0)};
  if ((symbol >> 8U) % 256 == 0) {
    value.push_back(padding(kLarge));
  }
  return value;
}

bool is_silence(const net::SessionCommand& command) {
  const auto* ended = std::get_if<net::Ended>(&command);
  return ended != nullptr && ended->loss &&
         ended->loss->cause == net::LossCause::silent;
}

}  // namespace

LinkPair::LinkPair(int number, const NetModel& model, const LinkTimes& times,
                   Random random, LinkListener& listener,
                   const LinkSabotage& sabotage)
    : number_(number),
      reconnect_(model.reconnect),
      times_(times),
      random_(random),
      listener_(listener),
      sabotage_(sabotage),
      wire_(model, Random(random_.bits())),
      ends_{End{.asker = net::ValueAsker("the coordinator"),
                .holder = net::ValueHolder(1)},
            End{.asker = net::ValueAsker("the member"),
                .holder = net::ValueHolder(1)}} {}

net::SessionOptions LinkPair::options(const std::string& peer) {
  return {.peer = peer,
          .role = {},
          .random = random_.bits() | 1U,
          .lease = times_.lease,
          .beat_interval = times_.beat_interval,
          .greeting_deadline = times_.greeting_deadline,
          .room = times_.room};
}

// ---- what the processes ask for

void LinkPair::dial(TimePoint now) {
  end(Side::member).session =
      net::LinkSession::dialling(options("the coordinator"), {}, now);
  schedule(Side::member);
}

void LinkPair::post(Side from, std::uint64_t letter, std::size_t bytes,
                    TimePoint now) {
  if (!end(from).has_ended) {
    end(from).waiting.push_back({letter, bytes});
    flush(from, now);
  }
}

/// As Outbox and Hub::send.
void LinkPair::flush(Side side, TimePoint now) {
  End& its = end(side);
  while (its.is_up && !its.waiting.empty()) {
    const Letter letter = its.waiting.front();
    const std::size_t room = net::room_for(letter.bytes);
    if (its.room < room) {
      counts_.waits_for_room += its.wants_room ? 0 : 1;
      its.wants_room = true;
      return;
    }
    its.room -= room;
    its.waiting.pop_front();
    hear(side, net::SendRecord{bytes_of_number(letter.number, letter.bytes)},
         now);
  }
}

void LinkPair::made_room(Side side, std::size_t room, TimePoint now) {
  End& its = end(side);
  its.room += room;
  if (its.wants_room && its.room >= times_.room / 2) {
    its.wants_room = false;
    flush(side, now);
  }
}

void LinkPair::fetch(Side from, const std::string& key, Taker taker,
                     TimePoint now) {
  constexpr auto kDeadline = std::chrono::hours(24);
  constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
  End& its = end(from);
  if (!its.is_up) {
    taker(std::nullopt);
    return;
  }
  const net::FetchId fetch = ++its.last_fetch;
  its.fetches.emplace(fetch, std::move(taker));
  hear(from,
       net::AskerEvent(net::AskFor{fetch, key, kMostBytes, now + kDeadline}),
       now);
}

void LinkPair::give(Side from, net::WantId want, std::optional<Symbol> symbol,
                    TimePoint now) {
  if (end(from).is_up) {
    hear(from,
         symbol ? net::HolderEvent(net::GiveValue{want, value_of(*symbol)})
                : net::HolderEvent(net::GiveNothing{want}),
         now);
  }
}

void LinkPair::leave(Side side, const std::string& sentence, TimePoint now) {
  if (end(side).session) {
    hear(side, net::Leave{sentence}, now);
  }
}

void LinkPair::kill(Side side) {
  End& its = end(side);
  its = {.asker = net::ValueAsker({}), .holder = net::ValueHolder(1)};
  its.has_ended = true;
}

// ---- what the policies ask for

void LinkPair::hear(Side side, const net::SessionEvent& event, TimePoint now) {
  End& its = end(side);
  std::optional<net::LinkSession> before;
  if (sabotage_.resumes_lost_sessions && side == Side::listener) {
    before = its.session;
  }
  std::vector<net::SessionCommand> commands = its.session->on(event, now);
  if (sabotage_.of_session) {
    sabotage_.of_session(commands);
  }
  if (before && std::ranges::any_of(commands, is_silence)) {
    its.session = before;
    its.has_ended = true;
    listener_.link_ended(number_, side, net::Loss{});
    return;
  }
  for (net::SessionCommand& command : commands) {
    if (auto* frame = std::get_if<net::Transmit>(&command)) {
      send(side, std::move(*frame), now);
    } else if (std::holds_alternative<net::Greeted>(command)) {
      hear(side, net::Accept{}, now);
    } else if (std::holds_alternative<net::CameUp>(command)) {
      came_up(side, now);
    } else if (const auto* record = std::get_if<net::DeliverRecord>(&command)) {
      listener_.letter_arrived(
          number_, side,
          number_of<std::uint64_t>(std::as_bytes(std::span(record->record))));
    } else if (const auto* beat = std::get_if<net::DeliverBeat>(&command)) {
      if (beat->round_trip) {
        listener_.round_trip_measured(number_, side, beat->round_trip->taken);
      }
    } else if (const auto* made = std::get_if<net::MadeRoom>(&command)) {
      made_room(side, made->room, now);
    } else if (const auto* ended = std::get_if<net::Ended>(&command)) {
      lost(side, ended->loss, now);
      return;
    }
  }
  schedule(side);
}

void LinkPair::came_up(Side side, TimePoint now) {
  End& its = end(side);
  its.is_up = true;
  its.room = its.session->room();
  listener_.link_up(number_, side);
  flush(side, now);
}

void LinkPair::hear(Side side, const net::AskerEvent& event, TimePoint now) {
  End& its = end(side);
  std::vector<net::AskerCommand> commands = its.asker.on(event, now);
  if (sabotage_.of_asker) {
    sabotage_.of_asker(commands);
  }
  for (net::AskerCommand& command : commands) {
    if (auto* frame = std::get_if<net::Transmit>(&command)) {
      send(side, std::move(*frame), now);
      continue;
    }
    auto& ended = std::get<net::FetchEnded>(command);
    auto found = its.fetches.extract(ended.fetch);
    if (ended.fetched.status == net::FetchStatus::found) {
      found.mapped()(number_of<Symbol>(ended.fetched.value.at(0).span()));
    } else {
      found.mapped()(std::nullopt);
    }
  }
  schedule(side);
}

void LinkPair::hear(Side side, const net::HolderEvent& event, TimePoint now) {
  std::vector<net::HolderCommand> commands = end(side).holder.on(event, now);
  if (sabotage_.of_holder) {
    sabotage_.of_holder(commands);
  }
  for (net::HolderCommand& command : commands) {
    if (auto* frame = std::get_if<net::Transmit>(&command)) {
      send(side, std::move(*frame), now);
    } else {
      const auto& [want, key] = std::get<net::Wanted>(command);
      listener_.value_wanted(number_, side, want, key);
    }
  }
  schedule(side);
}

/// As HubLoop::end.
void LinkPair::lost(Side side, const std::optional<net::Loss>& loss,
                    TimePoint now) {
  End& its = end(side);
  its.is_up = false;
  its.has_ended = true;
  its.waiting.clear();
  const net::LinkClosed closed{loss ? loss->what : "left"};
  hear(side, net::AskerEvent(closed), now);
  hear(side, net::HolderEvent(closed), now);
  its.session.reset();
  listener_.link_ended(number_, side, loss);
}

// ---- frames, timers and faults

void LinkPair::send(Side from, net::Transmit frame, TimePoint now) {
  const End& its = end(from);
  if (its.session && frame.head.session == net::SessionId{}) {
    frame.head.session = its.session->id();  // of a value
  }
  if (const auto due = wire_.send(from, std::move(frame), now)) {
    listener_.wake_link(number_, due->pipe, due->when);
  }
}

Side LinkPair::runner_of(std::size_t what) {
  return what < LinkWire::kNumPipes
             ? LinkWire::taker_of(what)
             : static_cast<Side>(what - LinkWire::kNumPipes);
}

void LinkPair::due(std::size_t what, TimePoint now) {
  if (what >= LinkWire::kNumPipes) {
    timer(runner_of(what), now);
    return;
  }
  std::optional<TimePoint> again;
  const auto frame = wire_.take(what, now, again);
  if (again) {
    listener_.wake_link(number_, what, *again);
  }
  if (frame) {
    arrived(*frame, runner_of(what), now);
  }
}

/// As HubLoop::listened_frame and dialled_frame.
void LinkPair::arrived(const LinkWire::Arrived& arrived, Side side,
                       TimePoint now) {
  End& its = end(side);
  const net::FrameArrived frame{arrived.frame.head,
                                arrived.frame.payload.span()};
  const net::FrameKind kind = frame.head.kind;
  if (side == Side::listener && !its.session && !its.has_ended &&
      kind == net::FrameKind::hello) {
    its.session = net::LinkSession::listening(options("the member"), now);
  }
  if (!its.session) {
    if (side == Side::listener && its.has_ended &&
        kind != net::FrameKind::bye && kind != net::FrameKind::hello) {
      wire_.learn(arrived.lane, arrived.connection);
      send(side,
           {{.kind = net::FrameKind::bye,
             .flags = net::kForgotten,
             .session = frame.head.session},
            {}},
           now);
    }
    return;
  }
  if (side == Side::listener) {
    wire_.learn(arrived.lane, arrived.connection);
  }
  if (arrived.lane != net::Lane::values) {
    count(its, frame.head, now);
    hear(side, net::SessionEvent(frame), now);
  } else if (its.is_up) {
    if (kind == net::FrameKind::want || kind == net::FrameKind::done) {
      hear(side, net::HolderEvent(frame), now);
    } else {
      hear(side, net::AskerEvent(frame), now);
    }
  }
}

void LinkPair::count(End& its, const net::FrameHead& head, TimePoint now) {
  if (head.kind != net::FrameKind::record || !its.is_up) {
    return;
  }
  if (head.a <= its.seen) {
    ++counts_.duplicates;
  } else if (head.a == its.seen + 1) {
    its.seen = head.a;
    its.is_in_record = (head.flags & net::kMore) != 0;
    if (its.is_in_record && cuts_in_record_) {
      cuts_in_record_ = false;
      listener_.link_cut(number_);
      cut(net::Lane::control, reconnect_, random_.chance(0.5), now);
    }
  }
}

void LinkPair::timer(Side side, TimePoint now) {
  End& its = end(side);
  if (!its.due || now < *its.due) {
    return;
  }
  its.due.reset();
  const auto is_due = [now](const auto& policy) {
    const auto due = policy.next_deadline();
    return due && *due <= now;
  };
  if (is_due(its.asker)) {
    hear(side, net::AskerEvent(net::Woken{}), now);
  }
  if (is_due(its.holder)) {
    hear(side, net::HolderEvent(net::Woken{}), now);
  }
  if (its.session && is_due(*its.session)) {
    hear(side, net::SessionEvent(net::Woken{}), now);
  }
  schedule(side);
}

void LinkPair::schedule(Side side) {
  End& its = end(side);
  if (!its.session || its.has_ended) {
    return;
  }
  auto due = its.session->next_deadline();
  for (const auto other :
       {its.asker.next_deadline(), its.holder.next_deadline()}) {
    if (other) {
      due = std::min(due.value_or(*other), *other);
    }
  }
  if (due && (!its.due || *due < *its.due)) {
    its.due = due;
    listener_.wake_link(number_, LinkWire::kNumPipes + index_of(side), *due);
  }
}

// ---- faults

void LinkPair::cut(Duration down, bool lingers, TimePoint now) {
  for (const net::Lane lane :
       {net::Lane::control, net::Lane::values, net::Lane::beats}) {
    cut(lane, down, lingers, now);
  }
}

void LinkPair::cut(net::Lane lane, Duration down, bool lingers, TimePoint now) {
  if (lane == net::Lane::control) {
    for (const Side side : {Side::member, Side::listener}) {
      const End& its = end(side);
      counts_.lost_in_record +=
          its.is_in_record && wire_.next_record(side) == its.seen + 1 ? 1 : 0;
    }
  }
  for (const LinkWire::Due& due : wire_.cut(lane, down, lingers, now)) {
    listener_.wake_link(number_, due.pipe, due.when);
  }
}

}  // namespace troupe::actors::simulator
