#include "kernels/isa.h"

#include <hwy/targets.h>

#include <cstdint>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels {
namespace {

dnnl::cpu_isa library_level(IsaLevel level) {
  switch (level) {
    case IsaLevel::avx2:
      return dnnl::cpu_isa::avx2;
    case IsaLevel::avx512:
      return dnnl::cpu_isa::avx512_core;
    case IsaLevel::avx512_bf16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case IsaLevel::amx:
      return dnnl::cpu_isa::avx512_core_amx;
  }
  return dnnl::cpu_isa::avx2;
}

/// Highway's targets above a level: the better one has the lower bit.
std::int64_t targets_above(IsaLevel level) {
  return (level == IsaLevel::avx2 ? HWY_AVX2 : HWY_AVX3) - 1;
}

}  // namespace

const char* cpu_isa() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_mic:
      return "avx512_mic";
    case dnnl::cpu_isa::avx512_mic_4ops:
      return "avx512_mic_4ops";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "other";
  }
}

const char* vector_isa() { return cpu::vector_isa(); }

bool has_native_bf16() { return cpu::writes_native_bfloat16(); }

IsaLevel highest_isa() {
  const std::string features = " " + cpu_features() + " ";
  const auto has = [&features](const char* feature) {
    return features.find(" " + std::string(feature) + " ") != std::string::npos;
  };
  if (!has("avx512f") || __builtin_cpu_supports("avx512bw") == 0 ||
      __builtin_cpu_supports("avx512dq") == 0 ||
      __builtin_cpu_supports("avx512vl") == 0) {
    return IsaLevel::avx2;
  }
  if (!has("avx512_bf16")) {
    return IsaLevel::avx512;
  }
  return has("amx_bf16") ? IsaLevel::amx : IsaLevel::avx512_bf16;
}

void hold_isa(IsaLevel level) {
  require(level <= highest_isa(), Errc::unsupported, "instruction set",
          "this processor has less", "troupe doctor shows what it has");
  const dnnl::status status = dnnl::set_max_cpu_isa(library_level(level));
  require(status == dnnl::status::success, Errc::internal, "instruction set",
          "the matrix library refuses to be held: something was computed "
          "before, or it was built without this control");
  hwy::DisableTargets(targets_above(level));
}

}  // namespace troupe::kernels
