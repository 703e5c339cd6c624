#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/device_choice.h"
#include "config/enum_names.h"
#include "config/number_list.h"
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
constexpr std::uint8_t kMethods = kSample | kBench;
constexpr std::uint8_t kRuns = kSample | kBench | kVerify;
constexpr std::uint8_t kSamplers = kSample | kBench | kSchedule;
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr int kMany = 1'000'000;

using Names = std::vector<std::string>;
using Sampler = SamplerConfig;
using Method = samplers::MethodChoices;

// A value as text that `read` reads back; empty: not set.

inline std::string text_of(const std::string& value) { return value; }
inline std::string text_of(bool value) { return value ? "true" : "false"; }
inline std::string text_of(int value) { return std::to_string(value); }
inline std::string text_of(std::uint64_t value) {
  return std::to_string(value);
}
inline std::string text_of(double value) { return to_text(value); }
inline std::string text_of(const SampleRange& value) {
  return to_string(value);
}
inline std::string text_of(const PictureSize& value) {
  return to_string(value);
}
inline std::string text_of(const std::vector<DeviceChoice>& value) {
  return to_string(value);
}
template <NamedEnum Enum>
std::string text_of(Enum value) {
  return name_of(value);
}
template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : std::string();
}
template <typename T>
std::string text_of(const std::vector<T>& items) {
  std::string text;
  for (const T& item : items) {
    text.append(text.empty() ? "" : ",").append(text_of(item));
  }
  return text;
}

// A new value of the member's type. Numbers with bounds: `whole`, `real`.

/// A path or name: refuses the empty one, which is mostly a shell variable
/// that was not set.
inline void read(Text place, Text text, std::string& value) {
  require(!text.empty(), Errc::invalid_argument, place, "the value is empty",
          "was a shell variable meant that is not set?");
  value = text;
}
inline void read(Text place, Text text, bool& value) {
  value = parse_bool(place, text);
}
inline void read(Text place, Text text, std::uint64_t& value) {
  value = parse_seed(place, text);
}
inline void read(Text place, Text text, SampleRange& value) {
  value = parse_range(place, text);
}
inline void read(Text place, Text text, PictureSize& value) {
  value = parse_size(place, text);
}
inline void read(Text place, Text text, Names& value) {
  value = parse_list(place, text);
}
inline void read(Text place, Text text, std::vector<double>& value) {
  value = parse_numbers(place, text);
}
inline void read(Text place, Text text, std::vector<DeviceChoice>& value) {
  value = parse_devices(place, text);
}
/// Of at least 0 each.
inline void read(Text place, Text text, std::vector<int>& value) {
  for (const std::string& item : parse_list(place, text)) {
    value.push_back(static_cast<int>(parse_integer(place, item, 0, kMany)));
  }
}
template <NamedEnum Enum>
void read(Text place, Text text, Enum& value) {
  value = parse_enum<Enum>(place, text);
}
template <typename T>
void read(Text place, Text text, std::optional<T>& value) {
  read(place, text, value.emplace());
}

/// The part of the config that a row's member belongs to.
template <typename Part>
auto& part_of(auto& config) {
  if constexpr (std::is_same_v<Part, Sampler>) {
    return config.sampler;
  } else if constexpr (std::is_same_v<Part, Method>) {
    return config.method;
  } else {
    return config;
  }
}

/// A member that `parse(place, text)` gives its value.
template <typename Part, typename T, typename Parse>
Field parsed(T Part::*member, Parse parse) {
  return {[=](Config& config, Text place, Text text) {
            part_of<Part>(config).*member = parse(place, text);
          },
          [=](const Config& config) {
            return text_of(part_of<Part>(config).*member);
          }};
}
/// A member that is read as its type says.
template <typename Part, typename T>
Field field(T Part::*member) {
  return parsed(member, [](Text place, Text text) {
    T value{};
    read(place, text, value);
    return value;
  });
}
/// A whole number, or one that may be unset.
template <typename Part, typename T>
Field whole(T Part::*member, int min, int max = kMany) {
  return parsed(member, [=](Text place, Text text) {
    return static_cast<int>(parse_integer(place, text, min, max));
  });
}
template <typename Part, typename T>
Field real(T Part::*member, double min, double max) {
  return parsed(member, [=](Text place, Text text) {
    return parse_real(place, text, min, max);
  });
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
