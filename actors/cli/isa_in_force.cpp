#include "actors/cli/isa_in_force.h"

#include <string>
#include <string_view>

#include "config/enum_names.h"
#include "kernels/core/error.h"
#include "kernels/isa.h"

namespace troupe::actors {
namespace {

std::optional<IsaLevel> level_of_products() {
  const std::string_view isa = kernels::cpu_isa();
  if (isa == "avx2" || isa == "avx2_vnni") {
    return IsaLevel::avx2;
  }
  if (isa == "avx512_core" || isa == "avx512_core_vnni") {
    return IsaLevel::avx512;
  }
  if (isa == "avx512_core_bf16") {
    return IsaLevel::avx512_bf16;
  }
  return isa == "avx512_core_amx" ? std::optional(IsaLevel::amx) : std::nullopt;
}

}  // namespace

std::optional<IsaLevel> isa_in_force() {
  const std::optional<IsaLevel> level = level_of_products();
  const bool has_wide_loops =
      std::string_view(kernels::vector_isa()).starts_with("AVX3");
  return level && (*level > IsaLevel::avx2) == has_wide_loops ? level
                                                              : std::nullopt;
}

void hold_to_level(const config::Config& config) {
  if (!config.isa) {
    return;
  }
  const IsaLevel most = kernels::highest_isa();
  require(*config.isa <= most, Errc::unsupported, config.place_of("isa"),
          "this processor has less: got " + config::name_of(*config.isa) +
              ", expected " + config::name_of(most) + " at most",
          "hold all machines to the lowest that any of them has");
  kernels::hold_isa(*config.isa);
}

bool hold_as_recipe(config::Config& config, std::optional<IsaLevel>& held) {
  if (!config.isa) {
    return true;
  }
  if (*config.isa >= kernels::highest_isa()) {
    config.isa.reset();
    return !held;
  }
  if (held) {
    return held == config.isa;
  }
  try {
    kernels::hold_isa(*config.isa);
  } catch (const Error& error) {
    if (error.code() == Errc::internal) {  // something was computed before
      return false;
    }
    throw;
  }
  held = config.isa;
  return true;
}

}  // namespace troupe::actors
