#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <vector>

#include "config/scheduler_config.h"
#include "config/suggest.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using samplers::DpmAlgorithm;
using samplers::SigmaSpacing;
using samplers::Solver;

struct Name {
  std::string_view key;  ///< normalised: lower case, "++" → "pp", letters only
  SolverChoice choice;
};

SolverChoice dpm(DpmAlgorithm algorithm, std::optional<int> order) {
  return {Solver::dpmpp, order, algorithm, {}, {}};
}

/// The forms that predict noise divide by the last σ.
SolverChoice dpm_noise(DpmAlgorithm algorithm) {
  return {Solver::dpmpp, {}, algorithm, {}, false};
}

const std::vector<Name>& names() {
  constexpr auto kOde = DpmAlgorithm::dpmsolver_pp;
  constexpr auto kSde = DpmAlgorithm::sde_dpmsolver_pp;
  static const std::vector<Name> table = {
      {"ddim", {Solver::ddim, {}, {}, {}}},
      {"ddpm", {Solver::ddpm, {}, {}, {}}},
      {"euler", {Solver::euler, {}, {}, {}}},
      {"eulerdiscrete", {Solver::euler, {}, {}, {}}},
      {"eulera", {Solver::euler_ancestral, {}, {}, {}}},
      {"eulerancestral", {Solver::euler_ancestral, {}, {}, {}}},
      {"eulerancestraldiscrete", {Solver::euler_ancestral, {}, {}, {}}},
      {"heun", {Solver::heun, {}, {}, {}}},
      {"heundiscrete", {Solver::heun, {}, {}, {}}},
      {"flow", {Solver::flow_euler, {}, {}, {}}},
      {"floweuler", {Solver::flow_euler, {}, {}, {}}},
      {"flowmatch", {Solver::flow_euler, {}, {}, {}}},
      {"flowmatcheuler", {Solver::flow_euler, {}, {}, {}}},
      {"flowmatcheulerdiscrete", {Solver::flow_euler, {}, {}, {}}},
      {"unipc", {Solver::unipc, {}, {}, {}}},
      {"unipcmultistep", {Solver::unipc, {}, {}, {}}},
      {"dpmsolvermultistep", {Solver::dpmpp, {}, {}, {}}},
      {"dpmpp", dpm(kOde, std::nullopt)},
      {"dpmsolverpp", dpm(kOde, std::nullopt)},
      {"dpmpp1m", dpm(kOde, 1)},
      {"dpmpp2m", dpm(kOde, 2)},
      {"dpmpp3m", dpm(kOde, 3)},
      {"dpmppsde", dpm(kSde, std::nullopt)},
      {"sdedpmsolverpp", dpm(kSde, std::nullopt)},
      {"dpmpp1msde", dpm(kSde, 1)},
      {"dpmpp2msde", dpm(kSde, 2)},
      {"dpmpp3msde", dpm(kSde, 3)},
      {"dpmsolver", dpm_noise(DpmAlgorithm::dpmsolver)},
      {"sdedpmsolver", dpm_noise(DpmAlgorithm::sde_dpmsolver)},
  };
  return table;
}

constexpr std::array<std::string_view, 17> kKnownElsewhere = {
    "pndm",
    "plms",
    "lms",
    "lmsdiscrete",
    "deis",
    "deismultistep",
    "kdpm2",
    "kdpm2discrete",
    "kdpm2ancestraldiscrete",
    "dpm2",
    "dpm2a",
    "dpmsolversinglestep",
    "edmeuler",
    "edmdpmsolvermultistep",
    "lcm",
    "tcd",
    "ipndm"};

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

[[noreturn]] void refuse(std::string_view name, const std::string& key) {
  const std::string there_is =
      "there is " + join_names(solver_names(), solver_names().size());
  if (std::find(kKnownElsewhere.begin(), kKnownElsewhere.end(), key) !=
      kKnownElsewhere.end()) {
    throw Error(Errc::unsupported, "solver",
                "got " + std::string(name) + ", which Troupe does not have",
                there_is);
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
  throw Error(
      Errc::invalid_argument, "solver",
      "got '" + std::string(name.substr(0, 64)) + "', expected a solver's name",
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
  std::optional<SigmaSpacing> spacing;
  if (drop_suffix(key, "karras")) {
    spacing = SigmaSpacing::karras;
  } else if (drop_suffix(key, "exponential")) {
    spacing = SigmaSpacing::exponential;
  } else if (drop_suffix(key, "beta")) {
    spacing = SigmaSpacing::beta;
  }
  const auto found =
      std::find_if(names().begin(), names().end(),
                   [&](const Name& candidate) { return candidate.key == key; });
  if (found == names().end()) {
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
}

}  // namespace troupe::config
