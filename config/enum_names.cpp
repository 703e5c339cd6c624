#include "config/enum_names.h"

namespace troupe::config {

using Names = std::vector<std::string>;

template <>
const Names& names_of<NoiseKind>() {
  static const Names kNames = {"philox", "torch"};
  return kNames;
}
template <>
const Names& names_of<ComputeType>() {
  static const Names kNames = {"auto", "f32", "bf16", "f16"};
  return kNames;
}
template <>
const Names& names_of<IsaLevel>() {
  static const Names kNames = {"avx2", "avx512", "avx512_bf16", "amx"};
  return kNames;
}
template <>
const Names& names_of<BitsMode>() {
  static const Names kNames = {"invariant", "free"};
  return kNames;
}
template <>
const Names& names_of<DeviceKind>() {
  static const Names kNames = {"cpu", "cuda"};
  return kNames;
}
template <>
const Names& names_of<ExistsPolicy>() {
  static const Names kNames = {"error", "skip", "replace"};
  return kNames;
}
template <>
const Names& names_of<ProgressKind>() {
  static const Names kNames = {"auto", "bar", "plain", "json", "none"};
  return kNames;
}
template <>
const Names& names_of<samplers::TimestepSpacing>() {
  static const Names kNames = {"leading", "trailing", "linspace"};
  return kNames;
}
template <>
const Names& names_of<samplers::SigmaSpacing>() {
  static const Names kNames = {"none", "karras", "exponential", "beta"};
  return kNames;
}
template <>
const Names& names_of<samplers::PredictionType>() {
  static const Names kNames = {"epsilon", "v_prediction", "sample",
                               "flow_prediction"};
  return kNames;
}
template <>
const Names& names_of<samplers::BetaSchedule>() {
  static const Names kNames = {"linear", "scaled_linear", "squaredcos_cap_v2",
                               "sigmoid", "laplace"};
  return kNames;
}
template <>
const Names& names_of<samplers::VarianceType>() {
  static const Names kNames = {"fixed_small", "fixed_small_log",
                               "fixed_large", "fixed_large_log",
                               "learned",     "learned_range"};
  return kNames;
}
template <>
const Names& names_of<samplers::DpmAlgorithm>() {
  static const Names kNames = {"dpmsolver", "dpmsolver++", "sde-dpmsolver",
                               "sde-dpmsolver++"};
  return kNames;
}
template <>
const Names& names_of<samplers::Carry>() {
  static const Names kNames = {"identity", "coefficient", "deviation"};
  return kNames;
}
template <>
const Names& names_of<samplers::InitialGuess>() {
  static const Names kNames = {"last_point", "constant_x0"};
  return kNames;
}
template <>
const Names& names_of<samplers::Accept>() {
  static const Names kNames = {"first_failing", "settled"};
  return kNames;
}

}  // namespace troupe::config
