#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/core/boundary.h"

namespace troupe {

/// The name of a value within a job. A name is never used for another value: a
/// sample that restarts counts its run up, and within a run a slot is written
/// once.
struct ValueName {
  std::uint64_t sample_index = 0;
  std::uint32_t run = 0;
  std::uint32_t slot = 0;

  friend auto operator<=>(const ValueName&, const ValueName&) = default;
};

/// A value on its way between processes: host tensors with the names that the
/// value's owner chose.
using Parcel = std::vector<NamedTensor>;

/// Port: how an immutable value gets from one process to another. Processes of
/// a job are numbered.
class ValueChannel {
 public:
  /// Is given the value. Nothing: its holder will not have it, or has gone.
  using Taker = std::function<void(std::optional<Parcel>)>;

  virtual ~ValueChannel() = default;
  /// Asks the process `holder` for a value. It stays there: any number of
  /// processes may ask. Who asks before the value is made gets it as soon as it
  /// is.
  /// `taker` is called once, perhaps before `get` returns. It must not throw.
  /// Thread: any. The taker may be called on any thread.
  virtual void get(int holder, const ValueName& name, Taker taker) = 0;
};

/// Keeps every question until a test answers it. Thread: one.
class ManualValueChannel final : public ValueChannel {
 public:
  void get(int holder, const ValueName& name, Taker taker) override;
  /// Answers everybody who asks `holder` for the value; returns how many.
  std::size_t answer(int holder, const ValueName& name,
                     const std::optional<Parcel>& parcel);
  /// Questions without an answer.
  [[nodiscard]] std::size_t num_open() const noexcept { return open_.size(); }

 private:
  std::multimap<std::pair<int, ValueName>, Taker> open_;
};

}  // namespace troupe
