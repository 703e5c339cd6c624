#include "actors/remote/link_values.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kConditionPrefix = "condition/";
constexpr std::string_view kProbePrefix = "probe/";
constexpr std::string_view kPacePrefix = "pace/";
constexpr const char* kLengths = "lengths";
/// More than any link has: a peer can say anything.
constexpr double kMostPace = 1e12;
constexpr Duration kLongestTrip = std::chrono::minutes(1);

/// The number behind the prefix, and nothing else.
template <typename Number>
std::optional<Number> number_behind(std::string_view prefix,
                                    std::string_view key) {
  if (!key.starts_with(prefix)) {
    return std::nullopt;
  }
  key.remove_prefix(prefix.size());
  Number number = 0;
  const char* const end = key.data() + key.size();
  const auto [at, error] = std::from_chars(key.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number)
                                           : std::nullopt;
}

}  // namespace

net::Value to_link(const Parcel& parcel) {
  net::Value value = {net::share(wire::encode_outline(parcel))};
  for (const NamedTensor& named : parcel) {
    if (!named.tensor.empty()) {
      value.push_back(net::share(named.tensor));
    }
  }
  return value;
}

Parcel from_link(const net::Value& value) {
  require(!value.empty(), Errc::corrupt_file, "value", "it has no parts");
  std::vector<wire::Elements> elements;
  for (const net::SharedBytes& part : std::span(value).subspan(1)) {
    elements.push_back({part.data, part.size});
  }
  return wire::decode_outline(value.front().span(), elements);
}

std::uint64_t num_bytes(const Parcel& parcel) {
  std::uint64_t bytes = 0;
  for (const NamedTensor& named : parcel) {
    bytes += named.tensor.num_bytes();
  }
  return bytes;
}

std::string key_of(int holder, const ValueName& name) {
  return std::to_string(holder) + "/" + std::to_string(name.sample_index) +
         "/" + std::to_string(name.run) + "/" + std::to_string(name.slot);
}

std::optional<std::pair<int, ValueName>> question_of(std::string_view key) {
  int holder = 0;
  ValueName name;
  const char* at = key.data();
  const char* const end = at + key.size();
  const auto read = [&](auto& number, bool is_last) {
    const auto [next, error] = std::from_chars(at, end, number);
    const bool fits = error == std::errc() &&
                      (is_last ? next == end : next != end && *next == '/');
    at = is_last ? next : next + 1;
    return fits;
  };
  const bool is_question = read(holder, false) &&
                           read(name.sample_index, false) &&
                           read(name.run, false) && read(name.slot, true);
  return is_question && holder >= 0 ? std::optional(std::pair(holder, name))
                                    : std::nullopt;
}

std::string key_of_condition(std::uint64_t hash) {
  return std::string(kConditionPrefix) + to_hex(hash);
}

std::optional<std::uint64_t> condition_asked(std::string_view key) {
  if (!key.starts_with(kConditionPrefix)) {
    return std::nullopt;
  }
  key.remove_prefix(kConditionPrefix.size());
  constexpr int kHexadecimal = 16;
  std::uint64_t hash = 0;
  const char* const end = key.data() + key.size();
  const auto [at, error] = std::from_chars(key.data(), end, hash, kHexadecimal);
  return error == std::errc() && at == end && key == to_hex(hash)
             ? std::optional(hash)
             : std::nullopt;
}

std::string key_of_probe(std::size_t bytes) {
  return std::string(kProbePrefix) + std::to_string(bytes);
}

std::optional<std::size_t> probe_asked(std::string_view key) {
  const auto bytes = number_behind<std::size_t>(kProbePrefix, key);
  return bytes && *bytes <= kMostProbeBytes ? bytes : std::nullopt;
}

std::string key_of_pace(int process) {
  return std::string(kPacePrefix) + std::to_string(process);
}

std::optional<int> pace_asked(std::string_view key) {
  const auto process = number_behind<int>(kPacePrefix, key);
  return process && *process >= 0 ? process : std::nullopt;
}

/// Nanoseconds, and whole bytes per second.
net::Value to_link(const LinkPace& pace) {
  return {net::share(std::to_string(pace.round_trip.count()) + "/" +
                     std::to_string(static_cast<std::uint64_t>(
                         std::min(pace.bytes_per_second, kMostPace))))};
}

std::optional<LinkPace> pace_of(const net::Value& value) {
  if (value.size() != 1) {
    return std::nullopt;
  }
  const std::string_view text(
      reinterpret_cast<const char*>(value.front().data.get()),
      value.front().size);
  const std::size_t slash = text.find('/');
  const auto trip = number_behind<std::int64_t>("", text.substr(0, slash));
  const auto rate = number_behind<std::uint64_t>(
      "", slash == std::string_view::npos ? "" : text.substr(slash + 1));
  if (!trip || *trip < 0 || *trip > kLongestTrip.count() || !rate ||
      *rate == 0) {
    return std::nullopt;
  }
  return LinkPace{Duration(*trip),
                  std::min(static_cast<double>(*rate), kMostPace)};
}

Parcel parcel_of(const models::Condition& condition) {
  std::vector<std::int64_t> lengths;
  for (const models::ConditionTensor& one : condition.tensors()) {
    lengths.push_back(one.length);
  }
  const auto count = static_cast<std::int64_t>(lengths.size());
  Parcel parcel = {{kLengths, Tensor::from<std::int64_t>(lengths, {count})}};
  for (const models::ConditionTensor& one : condition.tensors()) {
    parcel.push_back({one.name, one.tensor});
  }
  return parcel;
}

models::Condition condition_of(const Parcel& parcel) {
  const auto expect = [](bool good) {
    require(good, Errc::corrupt_file, "condition",
            "what came is no condition of a job");
  };
  expect(!parcel.empty() && parcel.front().name == kLengths);
  const Tensor& lengths = parcel.front().tensor;
  const auto count = static_cast<std::int64_t>(parcel.size()) - 1;
  // A tensor without elements travels as its name alone.
  expect(count == 0 ? lengths.empty()
                    : lengths.dtype() == DType::i64 &&
                          lengths.shape() == Shape{count});
  models::Condition condition;
  for (std::int64_t i = 0; i < count; ++i) {
    const NamedTensor& one = parcel[static_cast<std::size_t>(i) + 1];
    const std::int64_t length = lengths.data<std::int64_t>()[i];
    expect(!one.tensor.empty() && one.tensor.shape().rank() >= 1 &&
           length >= 0 && length <= one.tensor.dim(0) &&
           condition.find(one.name) == nullptr);
    condition.add(one.name, one.tensor, length);
  }
  return condition;
}

}  // namespace troupe::actors
