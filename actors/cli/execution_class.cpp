#include "actors/cli/execution_class.h"

#include <span>

#include "actors/cli/versions.h"
#include "config/enum_names.h"
#include "config/recipe.h"
#include "kernels/core/hash.h"
#include "kernels/core/system.h"
#include "kernels/linear.h"

namespace troupe::actors {
namespace {

std::string plan_text(const samplers::MethodOptions& options) {
  const samplers::MethodOptions m = config::logical_method(options);
  std::string text = config::name_of(m.kind);
  if (m.kind == samplers::MethodKind::picard) {
    text += " " + std::to_string(m.window_size) + " " +
            config::to_text(m.tolerance) + " " + config::name_of(m.carry) +
            " " + config::name_of(m.initial_guess);
  } else if (m.kind == samplers::MethodKind::stale) {
    text += " " + std::to_string(m.num_segments) + " " + std::to_string(m.age) +
            " " + std::to_string(m.stride) + " " +
            std::to_string(m.warmup_steps) + " " +
            std::to_string(m.final_fresh_steps);
    for (const int age : m.ages) {
      text += "," + std::to_string(age);
    }
  }
  return text;
}

}  // namespace

std::string selected_isa() { return kernels::cpu_isa(); }

DType automatic_dtype() {
  const std::string features = cpu_features();
  const bool native = features.find("avx512_bf16") != std::string::npos ||
                      features.find("amx_bf16") != std::string::npos;
  // The matrix library may be held to less than the processor has.
  return native && kernels::supports(DType::bf16) ? DType::bf16 : DType::f32;
}

std::string execution_class(std::uint64_t weights_hash, DType compute,
                            const samplers::MethodOptions& method) {
  std::string text = to_hex(weights_hash) + "\n" + version_line() + "\n";
  for (const LibraryVersion& library : library_versions()) {
    text += library.name + " " + library.version + "\n";
  }
  text += selected_isa() + "\n" + std::string(to_string(compute)) + "\n" +
          plan_text(method) + "\n";
  return to_hex(xxh3_64(std::as_bytes(std::span(text))));
}

}  // namespace troupe::actors
