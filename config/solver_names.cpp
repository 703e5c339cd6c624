#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <vector>

#include "config/foreign_solvers.h"
#include "config/scheduler_config.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

using samplers::DpmAlgorithm;
using samplers::SigmaSpacing;
using samplers::Solver;

struct Name {
  std::string_view key;  ///< normalised: lower case, "++" → "pp", letters only
  SolverChoice choice;
};

SolverChoice of(Solver solver, const char* type = nullptr) {
  SolverChoice choice;
  choice.solver = solver;
  if (type != nullptr) {
    choice.solver_type = type;
  }
  return choice;
}

SolverChoice dpm(DpmAlgorithm algorithm, std::optional<int> order,
                 const char* type = nullptr) {
  SolverChoice choice = of(Solver::dpmpp, type);
  choice.order = order;
  choice.algorithm = algorithm;
  return choice;
}

/// The forms that predict noise divide by the last σ.
SolverChoice dpm_noise(DpmAlgorithm algorithm) {
  SolverChoice choice = dpm(algorithm, std::nullopt);
  choice.final_sigma_zero = false;
  return choice;
}

const std::vector<Name>& names() {
  constexpr auto kOde = DpmAlgorithm::dpmsolver_pp;
  constexpr auto kSde = DpmAlgorithm::sde_dpmsolver_pp;
  static const std::vector<Name> table = {
      {"ddim", of(Solver::ddim)},
      {"ddimparallel", of(Solver::ddim)},
      {"ddpm", of(Solver::ddpm)},
      {"ddpmparallel", of(Solver::ddpm)},
      {"euler", of(Solver::euler)},
      {"eulerdiscrete", of(Solver::euler)},
      {"eulera", of(Solver::euler_ancestral)},
      {"eulerancestral", of(Solver::euler_ancestral)},
      {"eulerancestraldiscrete", of(Solver::euler_ancestral)},
      {"heun", of(Solver::heun)},
      {"heundiscrete", of(Solver::heun)},
      {"flow", of(Solver::flow_euler)},
      {"floweuler", of(Solver::flow_euler)},
      {"flowmatch", of(Solver::flow_euler)},
      {"flowmatcheuler", of(Solver::flow_euler)},
      {"flowmatcheulerdiscrete", of(Solver::flow_euler)},
      {"unipc", of(Solver::unipc)},
      {"unipcmultistep", of(Solver::unipc)},
      {"unipcbh1", of(Solver::unipc, "bh1")},
      {"unipcbh2", of(Solver::unipc, "bh2")},
      {"dpmsolvermultistep", of(Solver::dpmpp)},
      {"dpmpp", dpm(kOde, std::nullopt)},
      {"dpmsolverpp", dpm(kOde, std::nullopt)},
      {"dpmpp1m", dpm(kOde, 1)},
      {"dpmpp2m", dpm(kOde, 2)},
      {"dpmpp2mheun", dpm(kOde, 2, "heun")},
      {"dpmpp3m", dpm(kOde, 3)},
      {"sdedpmsolverpp", dpm(kSde, std::nullopt)},
      {"dpmpp1msde", dpm(kSde, 1)},
      {"dpmpp2msde", dpm(kSde, 2)},
      {"dpmpp2msdeheun", dpm(kSde, 2, "heun")},
      {"dpmpp3msde", dpm(kSde, 3)},
      {"dpmsolver", dpm_noise(DpmAlgorithm::dpmsolver)},
      {"sdedpmsolver", dpm_noise(DpmAlgorithm::sde_dpmsolver)},
  };
  return table;
}

std::string normalised(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == '+') {
      key += 'p';
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return key;
}

bool drop_suffix(std::string& word, std::string_view suffix) {
  if (word.size() <= suffix.size() || !word.ends_with(suffix)) {
    return false;
  }
  word.resize(word.size() - suffix.size());
  return true;
}

const Name* find(std::string_view key) {
  const auto found = std::ranges::find(names(), key, &Name::key);
  return found == names().end() ? nullptr : &*found;
}

/// Karras, exponential or beta behind the solver's name is a spacing of σ.
std::optional<SigmaSpacing> drop_spacing(std::string& key) {
  if (drop_suffix(key, "karras")) {
    return SigmaSpacing::karras;
  }
  if (!key.ends_with("polyexponential") && drop_suffix(key, "exponential")) {
    return SigmaSpacing::exponential;
  }
  if (drop_suffix(key, "beta")) {
    return SigmaSpacing::beta;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(std::string_view name, const std::string& key) {
  const std::string there_is =
      "there is " + join_names(solver_names(), solver_names().size());
  const ForeignSolver foreign = foreign_solver(
      key, [](std::string_view other) { return find(other) != nullptr; });
  if (!foreign.means.empty()) {
    throw Error(Errc::unsupported, "solver",
                "got " + in_quotes(name) + ", which is " +
                    std::string(foreign.means) + ": Troupe does not have that",
                "nearest is " + std::string(foreign.instead) + "; " + there_is);
  }
  std::vector<std::string> keys;
  for (const std::string& candidate : solver_names()) {
    keys.push_back(normalised(candidate));
  }
  const auto near = std::ranges::find(keys, nearest(key, keys));
  const std::string meant =
      near == keys.end()
          ? ""
          : "did you mean '" +
                solver_names()[static_cast<std::size_t>(near - keys.begin())] +
                "'? ";
  throw Error(Errc::invalid_argument, "solver",
              "got " + in_quotes(name) + ", expected a solver's name",
              meant + there_is);
}

}  // namespace

const std::vector<std::string>& solver_names() {
  static const std::vector<std::string> names = {
      "ddim",    "ddpm",        "euler",       "euler_a",   "heun",
      "flow",    "unipc",       "dpm++",       "dpm++1m",   "dpm++2m",
      "dpm++3m", "dpm++2m-sde", "dpm++3m-sde", "dpmsolver", "sde-dpmsolver"};
  return names;
}

SolverChoice parse_solver(std::string_view name) {
  std::string key = normalised(name.substr(0, 128));
  drop_suffix(key, "scheduler");
  const std::optional<SigmaSpacing> spacing = drop_spacing(key);
  const Name* const found = find(key);
  if (found == nullptr) {
    refuse(name, key);
  }
  SolverChoice choice = found->choice;
  choice.sigma_spacing = spacing;
  return choice;
}

void apply(const SolverChoice& choice, samplers::ScheduleOptions& options) {
  options.solver = choice.solver;
  options.solver_order = choice.order.value_or(options.solver_order);
  options.algorithm = choice.algorithm.value_or(options.algorithm);
  options.sigma_spacing = choice.sigma_spacing.value_or(options.sigma_spacing);
  options.final_sigma_zero =
      choice.final_sigma_zero.value_or(options.final_sigma_zero);
  options.solver_type = choice.solver_type.value_or(options.solver_type);
}

}  // namespace troupe::config
