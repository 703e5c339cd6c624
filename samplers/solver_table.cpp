#include <algorithm>

#include "kernels/core/text.h"
#include "samplers/solver_row.h"

namespace troupe::samplers {

extern const SolverRow kDdim;
extern const SolverRow kDdpm;
extern const SolverRow kDpmpp;
extern const SolverRow kEuler;
extern const SolverRow kEulerAncestral;
extern const SolverRow kHeun;
extern const SolverRow kFlowEuler;
extern const SolverRow kUnipc;
extern const SolverRow kPndm;

constinit const Solver Solver::ddim{kDdim};
constinit const Solver Solver::ddpm{kDdpm};
constinit const Solver Solver::dpmpp{kDpmpp};
constinit const Solver Solver::euler{kEuler};
constinit const Solver Solver::euler_ancestral{kEulerAncestral};
constinit const Solver Solver::heun{kHeun};
constinit const Solver Solver::flow_euler{kFlowEuler};
constinit const Solver Solver::unipc{kUnipc};
constinit const Solver Solver::pndm{kPndm};

SolverTable solver_table() {
  static constexpr Solver kTable[] = {
      Solver{kDdim},      Solver{kDdpm},           Solver{kPndm},
      Solver{kEuler},     Solver{kEulerAncestral}, Solver{kHeun},
      Solver{kFlowEuler}, Solver{kUnipc},          Solver{kDpmpp}};
  return kTable;
}

bool SolverRow::has_key(std::string_view key) const {
  return std::ranges::any_of(
      keys, [&](std::string_view group) { return has_word(group, key); });
}

}  // namespace troupe::samplers
