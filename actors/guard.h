#pragma once

#include <concepts>

#include "actors/messages.h"

namespace troupe::actors {

/// A failure as CAF's error: the code and the text, nothing else.
[[nodiscard]] inline caf::error to_caf_error(const Failure& failure) {
  return caf::make_error(failure.code, failure.message);
}

/// Runs a handler's body. What it throws is told to `last_words` and ends the
/// actor with the error as its reason, so that whoever monitors it learns the
/// cause.
template <typename Self, std::invocable Body, std::invocable<Failure> Words>
void guard(Self* self, const Body& body, const Words& last_words) {
  try {
    body();
  } catch (...) {
    const Failure cause = current_failure();
    last_words(cause);
    self->quit(to_caf_error(cause));
  }
}

template <typename Self, std::invocable Body>
void guard(Self* self, const Body& body) {
  guard(self, body, [](const Failure&) {});
}

}  // namespace troupe::actors
