#pragma once

#include <optional>

#include "config/config.h"
#include "kernels/core/isa_level.h"

namespace troupe::actors {

/// The level of instruction sets of matrix products and our own loops, if
/// `--isa` with this level would select exactly the same code. A recipe names
/// the level, so that a second run has the same execution class. Unset
/// otherwise: a processor between two levels, or ONEDNN_MAX_CPU_ISA. Afterwards
/// nothing can be held any more.
[[nodiscard]] std::optional<IsaLevel> isa_in_force();

/// Errors: Errc::unsupported where --isa is more than the processor has.
void check_level(const config::Config& config);
/// --isa, before anything computes.
void hold_to_level(const config::Config& config);

/// For a run of a recipe, whose options are merged into `config`: holds the
/// process to their level. A level that the processor does not have is dropped
/// from `config`, and the run's class is another one. `held` remembers the
/// level of an earlier recipe. False where the process computes at another
/// level already.
[[nodiscard]] bool try_hold_as_recipe(config::Config& config,
                                      std::optional<IsaLevel>& held);

/// Whether the user named the level: that is stronger than a recipe.
[[nodiscard]] bool names_level(const config::Config& config);

}  // namespace troupe::actors
