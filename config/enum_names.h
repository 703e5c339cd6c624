#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/config.h"
#include "config/parse_value.h"
#include "config/suggest.h"
#include "kernels/core/dtype.h"

namespace troupe::config {

/// Names of an enum's values as users and files write them, in enum order and
/// separated by spaces: one row per enum.
constexpr const char* list_of(NoiseKind) { return "philox torch"; }
constexpr const char* list_of(ComputeType) { return "auto f32 bf16 f16"; }
constexpr const char* list_of(IsaLevel) {
  return "avx2 avx512 avx512_bf16 amx";
}
constexpr const char* list_of(DType) { return "f32 bf16 f16 i64 u8"; }
constexpr const char* list_of(BitsMode) { return "invariant free"; }
constexpr const char* list_of(ShardPlan) { return "auto gather ulysses ring"; }
constexpr const char* list_of(AttentionPlan) { return "gather ulysses"; }
constexpr const char* list_of(GpuExchange) { return "peer nccl"; }
constexpr const char* list_of(ClassChange) { return "begin-anew wait refuse"; }
constexpr const char* list_of(EncodeOn) { return "auto here workers"; }
constexpr const char* list_of(DeviceKind) { return "cpu cuda"; }
constexpr const char* list_of(ExistsPolicy) { return "error skip replace"; }
constexpr const char* list_of(ProgressKind) {
  return "auto bar plain json none";
}
constexpr const char* list_of(samplers::TimestepSpacing) {
  return "leading trailing linspace";
}
constexpr const char* list_of(samplers::SigmaSpacing) {
  return "none karras exponential beta";
}
constexpr const char* list_of(samplers::PredictionType) {
  return "epsilon v_prediction sample flow_prediction";
}
constexpr const char* list_of(samplers::BetaSchedule) {
  return "linear scaled_linear squaredcos_cap_v2 sigmoid laplace";
}
constexpr const char* list_of(samplers::VarianceType) {
  return "fixed_small fixed_small_log fixed_large fixed_large_log learned "
         "learned_range";
}
constexpr const char* list_of(samplers::DpmAlgorithm) {
  return "dpmsolver dpmsolver++ sde-dpmsolver sde-dpmsolver++";
}
constexpr const char* list_of(samplers::Carry) {
  return "identity coefficient deviation";
}
constexpr const char* list_of(samplers::InitialGuess) {
  return "last_point constant_x0 linear_x0 trajectory";
}
constexpr const char* list_of(samplers::Accept) {
  return "first_failing settled";
}
constexpr const char* list_of(samplers::CutShape) { return "chain onion"; }
constexpr const char* list_of(samplers::StaleAt) { return "latents cuts"; }
constexpr const char* list_of(samplers::Anchor) { return "draft fresh"; }

template <typename T>
concept NamedEnum = std::is_enum_v<T> && requires {
  list_of(T{});
};

/// The names of an enum as a list.
template <NamedEnum Enum>
[[nodiscard]] const std::vector<std::string>& names_of() {
  static const std::vector<std::string> kNames = words(list_of(Enum{}));
  return kNames;
}

template <NamedEnum Enum>
[[nodiscard]] std::string name_of(Enum value) {
  return names_of<Enum>().at(static_cast<std::size_t>(value));
}

/// Errors: Errc::invalid_argument with the nearest name.
template <NamedEnum Enum>
[[nodiscard]] Enum parse_enum(std::string_view place, std::string_view text) {
  return static_cast<Enum>(parse_choice(place, text, names_of<Enum>()));
}

}  // namespace troupe::config
