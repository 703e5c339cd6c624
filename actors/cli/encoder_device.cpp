#include "actors/cli/encoder_device.h"

#include <fmt/format.h>

#include "kernels/core/system.h"
#include "kernels/core/text.h"

namespace troupe::actors {

DType encoder_dtype(DType dtype) {
  return dtype == DType::f16 ? DType::bf16 : dtype;
}

EncoderDevice choose_encoder_device(
    const EncoderDevices& devices, const Gpus& gpus,
    const std::function<EncodingMemory(const JobDevice& by)>& memory,
    std::vector<std::string>& notes) {
  const bool may_be_gpu = devices.only != DeviceKind::cpu;
  if (may_be_gpu) {
    for (JobDevice gpu : devices.gpus) {
      const EncodingMemory needed = memory(gpu);
      gpu.available_bytes = gpus.memory(gpu.device.index).free_bytes;
      gpu.required_bytes = needed.gpu;
      if (needed.gpu <= gpu.available_bytes &&
          needed.host <= memory_info().available_bytes) {
        if (gpu.probe == 0) {
          gpu.probe = gpus.probe(gpu);
        }
        return {std::move(gpu), needed};
      }
      notes.push_back(
          fmt::format("the text encoder does not fit on {}: got {} free, "
                      "expected {}",
                      gpu.label(), human_bytes(gpu.available_bytes),
                      human_bytes(needed.gpu)));
    }
  }
  if (may_be_gpu && !devices.gpus.empty()) {
    notes.back() += ": the CPU encodes the prompts";
  }
  const JobDevice cpu{.compute = devices.on_cpu};
  return {cpu, memory(cpu)};
}

}  // namespace troupe::actors
