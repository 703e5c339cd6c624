#pragma once

#include <functional>
#include <optional>

#include "actors/cli/job_conditions.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/job_prompts.h"
#include "actors/cli/signals.h"
#include "actors/cli/text_encoding.h"
#include "kernels/core/device.h"

namespace troupe::actors {

/// Lets another process encode. Empty: this one does.
using Elsewhere = std::function<EncodedElsewhere(const EncodingRecord& record,
                                                 PromptEncoders encoders)>;

/// Encodes the prompts that have tokens, on the device `by` and with all cores,
/// or elsewhere; what the cache has is not encoded. If a GPU fails or is too
/// full meanwhile, the CPU encodes all of them, where it has the memory.
/// `only`: the kind of device that is to encode elsewhere (EncodingRecord).
/// Errors: Errc::no_space where the disk has no room for what is made of them
/// (TensorStore); those of TextEncoder and of `elsewhere`; Errc::corrupt_file
/// for what fits neither the network nor the cache; Errc::interrupted,
/// Errc::terminated on a signal.
[[nodiscard]] JobConditions encode(const JobPrompts& prompts,
                                   const JobDevice& by, StopFlag& stop,
                                   const ConditionFinisher& finish,
                                   std::optional<DeviceKind> only = {},
                                   const Elsewhere& elsewhere = {});

}  // namespace troupe::actors
