#include "net/inproc_channel.h"

#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::net {

void InprocValueChannel::attach(int process, Holder holder) {
  auto shared = std::make_shared<const Holder>(std::move(holder));
  const std::lock_guard lock(mutex_);
  require(holders_.emplace(process, std::move(shared)).second,
          Errc::invalid_argument, "value channel",
          "process " + std::to_string(process) + " is there already");
}

void InprocValueChannel::get(int holder, const ValueName& name, Taker taker) {
  std::shared_ptr<const Holder> asked;
  {
    const std::lock_guard lock(mutex_);
    const auto found = holders_.find(holder);
    asked = found == holders_.end() ? nullptr : found->second;
  }
  if (asked) {
    (*asked)(name, std::move(taker));
  } else {
    taker(std::nullopt);
  }
}

}  // namespace troupe::net
