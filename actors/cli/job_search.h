#pragma once

#include <chrono>
#include <string>

#include "actors/cli/verbs.h"
#include "kernels/core/clock.h"
#include "kernels/core/error.h"

namespace troupe::actors {

/// How long a worker looks for a job, when it asks again, and what it says of
/// that. Thread: one.
class JobSearch {
 public:
  /// Begins now.
  JobSearch(const Invocation& invocation, const StopFlag& stop);

  /// How long a try may take: no longer than --wait has left.
  [[nodiscard]] Duration answer_within() const;
  /// A job was there: --wait begins anew.
  void reached();
  /// Nobody was reached. Pauses before the next try. False: --wait is over, or
  /// a signal came. With --stay it is never over.
  [[nodiscard]] bool may_try_again(const Error& error);
  /// Called when this process cannot compute the job it found. Waits until that
  /// job is over, for half a minute at most: the missing model or device may be
  /// there for the next try.
  /// Errors: Errc::interrupted or Errc::terminated after a signal.
  void await_another_job(const Error& why);
  /// What ends a search in vain. `last`: of the last try.
  [[nodiscard]] Error in_vain(const Error& last) const;

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool pause(std::chrono::milliseconds time) const;
  [[nodiscard]] double seconds_gone() const;
  void tell(const std::string& what);

  const Invocation& invocation_;
  const StopFlag& stop_;
  SteadyTime since_;  ///< when a job was last reached
  bool was_reached_ = false;
  std::chrono::milliseconds wait_;  ///< before the next try
  std::string said_;                ///< the last thing; not said twice
};

}  // namespace troupe::actors
