#include "actors/cli/execution_class.h"

#include <span>

#include "config/method_plan.h"
#include "config/recipe.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/numeric_probe.h"

namespace troupe::actors {
namespace {

/// Puts the length before each field, so that fields cannot run together.
void add(std::string& text, const std::string& field) {
  text += std::to_string(field.size()) + ":" + field + "\n";
}

}  // namespace

std::string logical_plan(const samplers::MethodOptions& method,
                         std::optional<int> ring_blocks) {
  const samplers::MethodOptions m = config::logical_method(method);
  std::string text;
  if (m.kind == samplers::MethodKind::sequential) {
    text = to_string(m.kind);
  } else {
    for (const auto& [key, value] : config::method_settings(m)) {
      text.append(text.empty() ? "" : " ")
          .append(key)
          .append("=")
          .append(value);
    }
  }
  return ring_blocks ? text + " ring-blocks=" + std::to_string(*ring_blocks)
                     : text;
}

std::string selected_isa() {
  return std::string(kernels::cpu_isa()) + "/" + kernels::vector_isa();
}

DType automatic_dtype() {
  return kernels::has_native_bf16() ? DType::bf16 : DType::f32;
}

ExecutionConditions execution_conditions(std::uint64_t weights_hash,
                                         const JobDevice& device,
                                         const samplers::MethodOptions& method,
                                         std::optional<int> ring_blocks) {
  ExecutionConditions conditions{.weights_hash = weights_hash,
                                 .build = version_line(),
                                 .libraries = library_versions(),
                                 .isa = selected_isa(),
                                 .probe = 0,
                                 .compute = device.compute,
                                 .plan = logical_plan(method, ring_blocks)};
  if (device.is_gpu()) {
    conditions.libraries = gpu_library_versions();
    conditions.isa = device.architecture;
    conditions.probe = device.probe;
    conditions.mode = bits_mode(device.options);
  } else {
    conditions.probe = kernels::numeric_probe(device.compute);
  }
  return conditions;
}

std::string bits_mode(const DeviceOptions& options) {
  return std::string(options.batch_invariant ? "invariant" : "free") +
         (options.tf32 ? "+tf32" : "");
}

std::string execution_class(const ExecutionConditions& conditions) {
  std::string text;
  add(text, to_hex(conditions.weights_hash));
  add(text, conditions.build);
  add(text, std::to_string(conditions.libraries.size()));
  for (const LibraryVersion& library : conditions.libraries) {
    add(text, library.name);
    add(text, library.version);
  }
  add(text, conditions.isa);
  add(text, to_hex(conditions.probe));
  add(text, std::string(to_string(conditions.compute)));
  add(text, conditions.plan);
  if (!conditions.mode.empty()) {
    add(text, conditions.mode);
  }
  return to_hex(xxh3_64(std::as_bytes(std::span(text))));
}

}  // namespace troupe::actors
