#pragma once

#include <optional>

#include "config/config.h"
#include "kernels/core/isa_level.h"

namespace troupe::actors {

/// The level that products and our own loops are at, where both are at one;
/// unset: they were held apart (ONEDNN_MAX_CPU_ISA), or it has no name here.
/// Afterwards nothing can be held any more.
[[nodiscard]] std::optional<IsaLevel> isa_in_force();

/// --isa, before anything computes. Errors: Errc::unsupported for more than the
/// processor has.
void hold_to_level(const config::Config& config);

/// The level of the recipe that `config` was merged from, where the user names
/// none. A processor that has less goes on without, and a processor's highest
/// level needs no holding. `held` remembers what a recipe before this one was
/// held to. False where the process computes at another level already.
[[nodiscard]] bool hold_as_recipe(config::Config& config,
                                  std::optional<IsaLevel>& held);

}  // namespace troupe::actors
