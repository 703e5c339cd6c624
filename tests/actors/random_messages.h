#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "actors/wire/codec.h"
#include "tests/actors/random_records.h"

// Random messages that a reader takes.

namespace troupe::actors {

// What a message needs beside its bounds.
template <typename T>
inline void make_whole(T& /*message*/) {}
inline constexpr const char* kClass = "0123456789abcdef";
inline void make_whole(Grant& grant) {
  grant.tasks.resize(std::max<std::size_t>(grant.tasks.size(), 1));
  grant.max_rows = std::max(grant.max_rows, 1);
}
inline void make_whole(Join& join) {
  join.classes.resize(1);
  join.classes[0].name = kClass;
  for (WorkerTraits& worker : join.joined.workers) {
    worker.execution_class = 0;
  }
}
inline void make_whole(DamagedValue& damaged) {
  damaged.holder = damaged.process == 0 ? 1 : 0;
}
inline void make_whole(EncodingOffer& offer) {
  offer.record.execution_class = kClass;
}
inline void make_whole(EncodingDone& done) {
  done.execution_class = done.encoder_class = kClass;
}

template <typename T>
T random_message(std::uint64_t seed) {
  T message{};
  RandomFields fill(seed, true);
  visit_fields(fill, message);
  make_whole(message);
  return message;
}

/// The bytes of a message. Seeds take turns among the alternatives.
template <typename... Ts>
std::string random_one_of(std::variant<Ts...> /*all*/, std::uint64_t seed) {
  using OneOf = std::variant<Ts...>;
  const std::vector<std::function<OneOf()>> all = {
      [seed] { return OneOf(random_message<Ts>(seed)); }...};
  return wire::encode(all[seed % all.size()]());
}

}  // namespace troupe::actors
