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

using samplers::SigmaSpacing;
using samplers::SolverTable;

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

std::optional<SolverChoice> find(SolverTable table, std::string_view key) {
  for (const samplers::Solver solver : table) {
    for (const samplers::SolverSpelling& spelling : solver->spellings) {
      if (spelling.key == key) {
        return SolverChoice{spelling, solver, std::nullopt};
      }
    }
  }
  return std::nullopt;
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

[[noreturn]] void refuse(SolverTable table, std::string_view name,
                         const std::string& key) {
  // Other programs call the spacing a scheduler.
  if (key == "karras" || key == "exponential" || key == "beta") {
    throw Error(Errc::invalid_argument, "--sampler",
                "got " + in_quotes(name) +
                    ", which is a spacing of noise levels and no solver",
                "give --sigma-spacing " + key +
                    ", or name a solver before it: 'euler " + key + "'");
  }
  const std::vector<std::string> shown = solver_names(table);
  const std::string there_is = "there is " + join_names(shown, shown.size());
  const ForeignSolver foreign = foreign_solver(
      key,
      [&](std::string_view other) { return find(table, other).has_value(); });
  if (!foreign.means.empty()) {
    throw Error(Errc::unsupported, "--sampler",
                "got " + in_quotes(name) + ", which is " +
                    std::string(foreign.means) + ": Troupe does not have that",
                "nearest is " + std::string(foreign.instead) + "; " + there_is);
  }
  std::vector<std::string> keys;
  for (const std::string& candidate : shown) {
    keys.push_back(normalised(candidate));
  }
  const auto near = std::ranges::find(keys, nearest(key, keys));
  const std::string meant =
      near == keys.end()
          ? ""
          : "did you mean '" +
                shown[static_cast<std::size_t>(near - keys.begin())] + "'? ";
  throw Error(Errc::invalid_argument, "--sampler",
              "got " + in_quotes(name) + ", expected a solver's name",
              meant + there_is);
}

}  // namespace

std::vector<std::string> solver_names(SolverTable table) {
  std::vector<std::string> names;
  for (const samplers::Solver solver : table) {
    names.insert(names.end(), solver->shown_names.begin(),
                 solver->shown_names.end());
  }
  return names;
}

SolverChoice parse_solver(std::string_view name, SolverTable table) {
  std::string key = normalised(name.substr(0, 128));
  drop_suffix(key, "scheduler");
  const std::optional<SigmaSpacing> spacing = drop_spacing(key);
  std::optional<SolverChoice> choice = find(table, key);
  for (const std::string_view prefix : {"k", "sample"}) {  // of k-diffusion
    if (!choice && key.starts_with(prefix)) {
      choice = find(table, std::string_view(key).substr(prefix.size()));
    }
  }
  if (!choice) {
    refuse(table, name, key);
  }
  choice->sigma_spacing = spacing;
  return *choice;
}

void apply(const SolverChoice& choice, samplers::ScheduleOptions& options) {
  options.solver = choice.solver;
  options.solver_order = choice.order.value_or(options.solver_order);
  options.algorithm = choice.algorithm.value_or(options.algorithm);
  options.sigma_spacing = choice.sigma_spacing.value_or(options.sigma_spacing);
  options.final_sigma_zero =
      choice.final_sigma_zero.value_or(options.final_sigma_zero);
  options.skip_prk_steps =
      choice.skip_prk_steps.value_or(options.skip_prk_steps);
  if (!choice.type.empty()) {
    options.solver_type = choice.type;
  }
}

}  // namespace troupe::config
