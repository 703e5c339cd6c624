#pragma once

#include "kernels/activation.h"
#include "models/files/json.h"

namespace troupe::models {

/// The activation that "act_fn" of a config.json names; SiLU where the key is
/// missing. `consequence` stands in the message for another name.
/// Source: diffusers models/activations.py, get_activation.
/// Errors: Errc::unsupported.
[[nodiscard]] kernels::Activation parse_activation(const Json& json,
                                                   const char* consequence);

}  // namespace troupe::models
