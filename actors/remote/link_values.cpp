#include "actors/remote/link_values.h"

#include <charconv>
#include <span>
#include <vector>

#include "actors/wire/parcel_codec.h"
#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kConditionPrefix = "condition/";
constexpr const char* kLengths = "lengths";

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
