#include "config/parse_value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

/// Noise keys hold 48 bits of sample index.
constexpr std::uint64_t kMaxSampleIndex = std::uint64_t{1} << 48U;
/// More samples than this in one command is a typing error.
constexpr std::uint64_t kMaxSamples = 10'000'000;

[[noreturn]] void fail(std::string_view place, std::string_view text,
                       std::string_view expected, std::string_view hint = {}) {
  throw Error(Errc::invalid_argument, place,
              "cannot use this value: got " + in_quotes(text) + ", expected " +
                  std::string(expected),
              hint);
}

}  // namespace

std::int64_t parse_integer(std::string_view place, std::string_view text,
                           std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  if (!read_number(trimmed(text), value) || value < min || value > max) {
    fail(place, text,
         "a whole number from " + std::to_string(min) + " to " +
             std::to_string(max));
  }
  return value;
}

std::uint64_t parse_seed(std::string_view place, std::string_view text) {
  std::int64_t below_zero = 0;
  if (read_number(trimmed(text), below_zero) && below_zero < 0) {
    return static_cast<std::uint64_t>(below_zero);
  }
  std::uint64_t seed = 0;
  if (!read_number(trimmed(text), seed)) {
    fail(place, text,
         "a whole number from -9223372036854775808 to 18446744073709551615");
  }
  return seed;
}

double parse_real(std::string_view place, std::string_view text, double min,
                  double max) {
  double value = 0;
  if (!read_number(trimmed(text), value) || !std::isfinite(value) ||
      value < min || value > max) {
    std::string expected = "a finite number";
    if (min > -1e300 && max < 1e300) {
      expected += " from " + to_text(min) + " to " + to_text(max);
    } else if (min > -1e300) {
      expected += " of at least " + to_text(min);
    }
    fail(place, text, expected);
  }
  return value;
}

bool is_no(std::string_view text) {
  return text == "false" || text == "no" || text == "off" || text == "0";
}

bool parse_bool(std::string_view place, std::string_view text) {
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) {
      return true;
    }
  }
  if (is_no(text)) {
    return false;
  }
  fail(place, text, "true or false");
}

std::vector<std::string> parse_list(std::string_view place,
                                    std::string_view text) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) {
    return items;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view item = trimmed(text.substr(begin, comma - begin));
    if (item.empty()) {
      fail(place, text, "items between the commas");
    }
    items.emplace_back(item);
    begin = comma + 1;
  }
  return items;
}

SampleRange parse_range(std::string_view place, std::string_view text) {
  const std::size_t colon = text.find(':');
  SampleRange range;
  const bool read =
      colon == std::string_view::npos
          ? read_number(trimmed(text), range.end)
          : read_number(trimmed(text.substr(0, colon)), range.begin) &&
                read_number(trimmed(text.substr(colon + 1)), range.end);
  if (!read || range.begin >= range.end || range.end > kMaxSampleIndex) {
    fail(place, text, "a count N of at least 1, or A:B with A < B");
  }
  if (range.size() > kMaxSamples) {
    fail(place, text,
         "at most " + std::to_string(kMaxSamples) + " samples in one command",
         "split the run with A:B");
  }
  return range;
}

std::string to_string(const SampleRange& range) {
  return range.begin == 0
             ? std::to_string(range.end)
             : std::to_string(range.begin) + ":" + std::to_string(range.end);
}

PictureSize parse_size(std::string_view place, std::string_view text) {
  constexpr std::int64_t kMost = 16384;
  const std::string wanted = lowered(trimmed(text));
  const std::size_t cross = std::min(wanted.find('x'), wanted.size());
  PictureSize size;
  bool read =
      read_number(std::string_view(wanted).substr(0, cross), size.width);
  size.height = size.width;
  if (cross < wanted.size()) {
    read = read &&
           read_number(std::string_view(wanted).substr(cross + 1), size.height);
  }
  const auto fits = [](std::int64_t side) { return side > 0 && side <= kMost; };
  if (!read || !fits(size.width) || !fits(size.height)) {
    fail(place, text, "WIDTHxHEIGHT in pixels, 1 to 16384 each");
  }
  return size;
}

std::string to_string(const PictureSize& size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

std::size_t parse_choice(std::string_view place, std::string_view text,
                         const std::vector<std::string>& names) {
  const std::string_view wanted = trimmed(text);
  const auto found = std::ranges::find(names, wanted);
  if (found == names.end()) {
    fail(place, text, "one of " + join_names(names, 24),
         suggestion(wanted, names));
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::string to_text(double value) {
  std::array<char, 32> buffer{};
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end)
                              : std::string("nan");
}

}  // namespace troupe::config
