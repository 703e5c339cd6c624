#include "config/number_list.h"

#include <algorithm>
#include <string>

#include "config/parse_value.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20U;
constexpr double kLargest = 1e9;

/// Without one pair of brackets around all of it.
std::string_view without_brackets(std::string_view place,
                                  std::string_view text) {
  const auto opens = [&](char c) { return c == '[' || c == '('; };
  const auto closes = [&](char c) { return c == ']' || c == ')'; };
  if (text.empty() || (!opens(text.front()) && !closes(text.back()))) {
    return text;
  }
  const char partner = text.front() == '[' ? ']' : ')';
  require(opens(text.front()) && text.back() == partner, Errc::invalid_argument,
          place, "a bracket without its partner: got " + in_quotes(text),
          "write [14.6, 3.2, 1.0], or leave the brackets out");
  return trimmed(text.substr(1, text.size() - 2));
}

std::vector<double> read_list(std::string_view place, std::string_view text) {
  std::vector<double> values;
  text = without_brackets(place, trimmed(text));
  while (!text.empty()) {
    const std::size_t end =
        std::min(text.find_first_of(", \t\r\n"), text.size());
    values.push_back(
        parse_real(place, text.substr(0, end), -kLargest, kLargest));
    text = trimmed(text.substr(end));
    if (text.starts_with(',')) {
      text = trimmed(text.substr(1));
      // A comma at the end is Python's; two in a row are a gap.
      require(!text.starts_with(','), Errc::invalid_argument, place,
              "two commas without a number between them", "fill the gap");
    }
  }
  return values;
}

}  // namespace

std::vector<double> parse_numbers(std::string_view place,
                                  std::string_view text) {
  if (!trimmed(text).starts_with('@')) {
    return read_list(place, text);
  }
  const std::string path(trimmed(text).substr(1));
  require(!path.empty(), Errc::invalid_argument, place,
          "no file is named after the @", "for example @sigmas.txt");
  const std::vector<double> values =
      read_list(std::string(place) + " " + path, read_file(path, kMaxBytes));
  require(!values.empty(), Errc::invalid_argument, path,
          "no numbers are in this file",
          "write them with commas, spaces or line breaks between them");
  return values;
}

}  // namespace troupe::config
