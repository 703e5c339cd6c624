#pragma once

#include <functional>
#include <string_view>

namespace troupe::config {

/// A name that k-diffusion, A1111, ComfyUI or diffusers have for something that
/// Troupe does not run.
struct ForeignSolver {
  std::string_view key;      ///< as SolverChoice's names: "dpmppsde"
  std::string_view means;    ///< what it is there
  std::string_view instead;  ///< the nearest that Troupe has
};

/// What a normalised name (lower case, "++" as "pp", letters and digits only,
/// without "Scheduler") means elsewhere. Empty `means`: nothing that is known.
/// `is_solver` says whether a normalised name is one of Troupe's.
[[nodiscard]] ForeignSolver foreign_solver(
    std::string_view key,
    const std::function<bool(std::string_view key)>& is_solver);

}  // namespace troupe::config
