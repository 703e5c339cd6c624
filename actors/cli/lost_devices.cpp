#include "actors/cli/lost_devices.h"

#include <algorithm>
#include <string>

#include "kernels/core/log.h"

namespace troupe::actors {

void report_lost(const JobRequest& request, std::span<const LostDevice> lost,
                 RunSummary& summary) {
  for (const LostDevice& one : lost) {
    const auto device =
        std::ranges::find(request.devices, one.device, &JobDevice::device);
    const std::string name = device != request.devices.end()
                                 ? device->label()
                                 : to_string(one.device);
    const std::string cause = one.cause.message;
    const auto known = std::ranges::find_if(
        summary.devices, [&name](const DeviceSummary& summarised) {
          return summarised.name == name;
        });
    // One worker of several may have been lost: the first cause says why.
    if (known == summary.devices.end() || known->status == "lost") {
      continue;
    }
    known->status = "lost";
    known->cause = cause;
    const std::string note = name + " was lost: " + cause;
    log_message(LogLevel::warning, note);
    summary.notes.push_back(note);
  }
}

}  // namespace troupe::actors
