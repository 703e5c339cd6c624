#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/parse_value.h"

namespace troupe::config {

/// Names of an enum's values as users and files write them, in enum order.
template <typename Enum>
[[nodiscard]] const std::vector<std::string>& names_of();

template <>
const std::vector<std::string>& names_of<NoiseKind>();
template <>
const std::vector<std::string>& names_of<ComputeType>();
template <>
const std::vector<std::string>& names_of<IsaLevel>();
template <>
const std::vector<std::string>& names_of<BitsMode>();
template <>
const std::vector<std::string>& names_of<DeviceKind>();
template <>
const std::vector<std::string>& names_of<ExistsPolicy>();
template <>
const std::vector<std::string>& names_of<ProgressKind>();
template <>
const std::vector<std::string>& names_of<samplers::TimestepSpacing>();
template <>
const std::vector<std::string>& names_of<samplers::SigmaSpacing>();
template <>
const std::vector<std::string>& names_of<samplers::PredictionType>();
template <>
const std::vector<std::string>& names_of<samplers::BetaSchedule>();
template <>
const std::vector<std::string>& names_of<samplers::VarianceType>();
template <>
const std::vector<std::string>& names_of<samplers::DpmAlgorithm>();
template <>
const std::vector<std::string>& names_of<samplers::Carry>();
template <>
const std::vector<std::string>& names_of<samplers::InitialGuess>();
template <>
const std::vector<std::string>& names_of<samplers::Accept>();

template <typename Enum>
[[nodiscard]] std::string name_of(Enum value) {
  return names_of<Enum>().at(static_cast<std::size_t>(value));
}

/// Errors: Errc::invalid_argument with the nearest name.
template <typename Enum>
[[nodiscard]] Enum parse_enum(std::string_view place, std::string_view text) {
  return static_cast<Enum>(parse_choice(place, text, names_of<Enum>()));
}

}  // namespace troupe::config
