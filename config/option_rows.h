#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/enum_names.h"
#include "config/option_table.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"

/// What the rows of the option table are written with. For the files that hold
/// rows only.
namespace troupe::config::rows {

using Text = std::string_view;

constexpr std::uint8_t kSample = 1;
constexpr std::uint8_t kSchedule = 2;
constexpr std::uint8_t kInspect = 4;
constexpr std::uint8_t kVerify = 8;
constexpr std::uint8_t kBench = 16;
constexpr std::uint8_t kDoctor = 32;
constexpr std::uint8_t kAll = 63;
constexpr std::uint8_t kRuns = kSample | kBench | kVerify;
constexpr std::uint8_t kSamplers = kSample | kBench | kSchedule;
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr int kMany = 1'000'000;

using Names = std::vector<std::string>;

template <typename Enum>
inline std::string name_of(const std::optional<Enum>& value) {
  return value ? config::name_of(*value) : std::string();
}
inline std::string text_of(const std::optional<int>& value) {
  return value ? std::to_string(*value) : std::string();
}
inline std::string text_of(const std::optional<double>& value) {
  return value ? to_text(*value) : std::string();
}
inline std::string text_of(bool value) { return value ? "true" : "false"; }
inline std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text.append(text.empty() ? "" : ",").append(item);
  }
  return text;
}
inline std::string joined(const std::vector<int>& items) {
  Names names;
  for (const int item : items) {
    names.push_back(std::to_string(item));
  }
  return joined(names);
}
inline std::string joined(const std::vector<double>& items) {
  Names names;
  for (const double item : items) {
    names.push_back(to_text(item));
  }
  return joined(names);
}
inline int small(Text place, Text text, int min) {
  return static_cast<int>(parse_integer(place, text, min, kMany));
}
/// A path or name: refuses the empty one, which is mostly a shell variable
/// that was not set.
inline std::string filled(Text place, Text text) {
  require(!text.empty(), Errc::invalid_argument, place, "the value is empty",
          "was a shell variable meant that is not set?");
  return std::string(text);
}
inline void set_ages(samplers::MethodChoices& method, Text place, Text text) {
  method.ages.clear();
  for (const std::string& item : parse_list(place, text)) {
    method.ages.push_back(small(place, item, 0));
  }
}

constexpr Text kModel = "Model and job";
constexpr Text kSamplerGroup = "Sampler";
constexpr Text kMethodGroup = "Parallel method";
constexpr Text kResources = "Machine";
constexpr Text kOutput = "Output";
constexpr Text kTalk = "Talk";

/// The rows about what is sampled: model, job and sampler.
[[nodiscard]] std::span<const Option> sampling_rows();
/// The rows about how it is run: method, machine, output and talk.
[[nodiscard]] std::span<const Option> running_rows();

}  // namespace troupe::config::rows
