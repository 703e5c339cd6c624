#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/core/value_channel.h"

namespace troupe::net {

/// The value channel inside one process, between the stores of several parts of
/// it: hands tensors over and copies nothing. Thread: any.
class InprocValueChannel final : public ValueChannel {
 public:
  /// Answers for a process: calls the taker once, when it has the value or
  /// knows that it will not have it. Thread: any.
  using Holder = std::function<void(const ValueName& name, Taker taker)>;

  /// From now on `process` is asked through `holder`. Errors:
  /// Errc::invalid_argument if the number is taken.
  void attach(int process, Holder holder);
  void get(int holder, const ValueName& name, Taker taker) override;

 private:
  std::mutex mutex_;
  std::map<int, std::shared_ptr<const Holder>> holders_;
};

}  // namespace troupe::net
