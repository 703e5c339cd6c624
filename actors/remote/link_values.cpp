#include "actors/remote/link_values.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <vector>

#include "actors/wire/codec.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr const char* kLengths = "lengths";
/// More than any link has: a peer can say anything.
constexpr double kMostPace = 1e12;
constexpr Duration kLongestTrip = std::chrono::minutes(1);

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

std::optional<ValueKey> key_of(std::string_view bytes) {
  try {
    return wire::decode_key(net::bytes_of(bytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

net::Value to_link(const LinkPace& pace) {
  return {net::share(wire::encode(pace))};
}

std::optional<LinkPace> pace_of(const net::Value& value) {
  try {
    require(value.size() == 1, Errc::corrupt_file, "pace", "it has no bytes");
    LinkPace pace = wire::decode_pace(value.front().span());
    const bool is_one = pace.round_trip >= Duration{} &&
                        pace.round_trip <= kLongestTrip &&
                        pace.bytes_per_second > 0;
    pace.bytes_per_second = std::min(pace.bytes_per_second, kMostPace);
    return is_one ? std::optional(pace) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
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
