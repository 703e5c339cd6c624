#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/enum_names.h"
#include "config/option_table.h"
#include "config/parse_value.h"

/// What the rows of the option table are written with. For the files that hold
/// rows only.
namespace troupe::config::rows {

using Text = std::string_view;

constexpr VerbSet kSample = 1;
constexpr VerbSet kSchedule = 2;
constexpr VerbSet kInspect = 4;
constexpr VerbSet kVerify = 8;
constexpr VerbSet kBench = 16;
constexpr VerbSet kDoctor = 32;
constexpr VerbSet kKeys = 64;
constexpr VerbSet kWorker = 128;
constexpr VerbSet kLs = 256;
constexpr VerbSet kCancel = 512;
constexpr VerbSet kEncode = 1024;
constexpr VerbSet kAll = 2047;
constexpr VerbSet kMethods = kSample | kBench;
constexpr VerbSet kRuns = kSample | kBench | kVerify;
/// Verbs that compute on this machine.
constexpr VerbSet kComputes = kRuns | kWorker;
constexpr VerbSet kSamplers = kSample | kBench | kSchedule;
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr int kMany = 1'000'000;

using Names = std::vector<std::string>;
using Sampler = SamplerConfig;
using Method = samplers::MethodChoices;
using Emulation = EmulationConfig;

// A value as text that its parser reads back; empty: not set.

inline std::string text_of(const std::string& value) { return value; }
inline std::string text_of(bool value) { return value ? "true" : "false"; }
inline std::string text_of(double value) { return to_text(value); }
inline std::string text_of(const samplers::SigmaRange& value) {
  return to_string(value);
}
inline std::string text_of(const std::vector<DeviceChoice>& value) {
  return to_string(value);
}
template <typename T>
std::string text_of(const T& value) {
  using std::to_string;
  return to_string(value);
}
template <NamedEnum T>
std::string text_of(const T& value) {
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

/// The part of the config that a row's member belongs to.
template <typename Part>
auto& part_of(auto& config) {
  if constexpr (std::is_same_v<Part, Sampler>) {
    return config.sampler;
  } else if constexpr (std::is_same_v<Part, Method>) {
    return config.method;
  } else if constexpr (std::is_same_v<Part, samplers::Guidance>) {
    return config.guidance;
  } else if constexpr (std::is_same_v<Part, Emulation>) {
    return config.emulation;
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
/// A path or name.
template <typename Part>
Field field(std::string Part::*member) {
  return parsed(member, [](Text place, Text text) {
    if (text.empty()) {
      fail_empty(place);
    }
    return text;
  });
}
template <typename Part>
Field field(bool Part::*member) {
  return parsed(member, parse_bool);
}
template <typename Part, NamedEnum T>
Field field(T Part::*member) {
  return parsed(member, parse_enum<T>);
}
template <typename Part, NamedEnum T>
Field field(std::optional<T> Part::*member) {
  return parsed(member, parse_enum<T>);
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
/// A time, in seconds.
template <typename Part>
Field seconds(double Part::*member, double min, double max) {
  return parsed(member, [=](Text place, Text text) {
    return parse_seconds(place, text, min, max);
  });
}

/// Of groups of verbs.
inline VerbText by_verb(std::initializer_list<VerbText::Part> parts) {
  return parts;
}

constexpr Text kModel = "Model and job";
constexpr Text kSamplerGroup = "Sampler";
constexpr Text kMethodGroup = "Parallel method";
constexpr Text kResources = "Machine";
constexpr Text kMachines = "Several machines";
constexpr Text kEmulation = "Emulated machine";
constexpr Text kOutput = "Output";
constexpr Text kTalk = "Talk";

/// The rows about what is sampled: model, job and sampler.
[[nodiscard]] std::span<const Option> sampling_rows();
/// The rows about how it is run: method, machine, output and talk.
[[nodiscard]] std::span<const Option> running_rows();
/// The rows about companies of several processes and machines.
[[nodiscard]] std::span<const Option> machine_rows();

}  // namespace troupe::config::rows
