#include "actors/remote/link_values.h"

#include <charconv>
#include <span>
#include <vector>

#include "actors/wire/parcel_codec.h"
#include "kernels/core/error.h"

namespace troupe::actors {

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

}  // namespace troupe::actors
