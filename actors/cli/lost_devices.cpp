#include "actors/cli/lost_devices.h"

#include <algorithm>
#include <string>

#include "kernels/core/log.h"

namespace troupe::actors {

void report_lost(const JobRequest& request, std::span<const LostDevice> lost,
                 RunSummary& summary) {
  for (const LostDevice& one : lost) {
    const std::string name =
        std::ranges::find(request.devices, one.device, &JobDevice::device)
            ->label();
    const auto known =
        std::ranges::find(summary.devices, name, &DeviceSummary::name);
    // One worker of several may have been lost: the first cause says why.
    if (known == summary.devices.end() || known->status == "lost") {
      continue;
    }
    known->status = "lost";
    known->cause = one.cause.message;
    const std::string note = name + " was lost: " + known->cause;
    log_message(LogLevel::warning, note);
    summary.notes.push_back(note);
  }
}

}  // namespace troupe::actors
