#include "actors/cli/isa_in_force.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "config/enum_names.h"
#include "kernels/core/error.h"
#include "kernels/isa.h"

namespace troupe::actors {
namespace {

/// The matrix library's names of the levels.
constexpr std::array<std::string_view, 4> kLevels = {
    "avx2", "avx512_core", "avx512_core_bf16", "avx512_core_amx"};

std::optional<IsaLevel> level_of_products() {
  const auto* const found = std::ranges::find(kLevels, kernels::cpu_isa());
  return found == kLevels.end()
             ? std::nullopt
             : std::optional(static_cast<IsaLevel>(found - kLevels.begin()));
}

}  // namespace

std::optional<IsaLevel> isa_in_force() {
  const std::optional<IsaLevel> level = level_of_products();
  const std::string_view loops = level > IsaLevel::avx2 ? "AVX3" : "AVX2";
  return level && kernels::vector_isa() == loops ? level : std::nullopt;
}

void check_level(const config::Config& config) {
  if (!config.isa) {
    return;
  }
  const IsaLevel most = kernels::highest_isa();
  require(*config.isa <= most, Errc::unsupported, config.place_of("isa"),
          "this processor has less: got " + config::name_of(*config.isa) +
              ", expected " + config::name_of(most) + " at most",
          "hold all machines to the lowest that any of them has");
}

void hold_to_level(const config::Config& config) {
  if (config.isa) {
    check_level(config);
    kernels::hold_isa(*config.isa);
  }
}

bool names_level(const config::Config& config) {
  return config.isa && config.is_flag("isa");
}

bool try_hold_as_recipe(config::Config& config, std::optional<IsaLevel>& held) {
  if (config.isa && *config.isa > kernels::highest_isa()) {
    config.isa.reset();
  }
  if (!config.isa || held) {
    return held == config.isa;
  }
  try {
    kernels::hold_isa(*config.isa);
  } catch (const Error& error) {
    if (error.code() == Errc::internal) {  // something was computed before
      return isa_in_force() == config.isa;
    }
    throw;
  }
  held = config.isa;
  return true;
}

}  // namespace troupe::actors
