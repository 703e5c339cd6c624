#include "actors/cli/encoder_device.h"

#include <fmt/format.h>

#include "actors/cli/execution_class.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"

namespace troupe::actors {

DType encoder_dtype_on_gpu(DType dtype) {
  return dtype == DType::f16 ? DType::bf16 : dtype;
}

DType encoder_dtype_on_cpu(DType dtype) {
  return dtype == DType::f32 ? DType::f32 : automatic_dtype();
}

EncoderDevice choose_encoder_device(
    const EncoderDevices& devices, const Gpus& gpus,
    const std::function<EncodingMemory(const JobDevice& by)>& memory,
    std::vector<std::string>& notes) {
  const JobDevice cpu{.compute = devices.on_cpu};
  if (devices.only == DeviceKind::cpu || devices.gpus.empty()) {
    return {cpu, memory(cpu)};
  }
  for (JobDevice gpu : devices.gpus) {
    const EncodingMemory needed = memory(gpu);
    gpu.available_bytes = gpus.memory(gpu.device.index).free_bytes;
    gpu.required_bytes = needed.gpu;
    if (needed.gpu <= gpu.available_bytes) {
      if (gpu.probe == 0) {
        gpu.probe = gpus.probe(gpu);
      }
      return {std::move(gpu), needed};
    }
    notes.push_back(fmt::format(
        "the text encoder does not fit on {}: got {} free, expected {}",
        gpu.label(), human_bytes(gpu.available_bytes),
        human_bytes(needed.gpu)));
  }
  notes.back() += ": the CPU encodes the prompts";
  return {cpu, memory(cpu)};
}

void check_encoder_memory(const EncodingMemory& needed, std::string_view hint) {
  const MemoryInfo memory = memory_info();
  require(needed.host <= memory.available_bytes, Errc::out_of_memory, "memory",
          "the text encoder does not fit: got " +
              human_bytes(memory.available_bytes) + " free, expected " +
              needed_text(needed.host, needed.prompts) + " (" +
              to_string(memory.binding()) + ")",
          needed.host - needed.prompts <= memory.available_bytes ? kFewerPrompts
                                                                 : hint);
}

}  // namespace troupe::actors
