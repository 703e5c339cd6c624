#include "config/parse_value.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"

namespace troupe::config {
namespace {

/// Noise keys hold 48 bits of sample index.
constexpr std::uint64_t kMaxSampleIndex = std::uint64_t{1} << 48U;
/// More samples than this in one command is a typing error.

[[noreturn]] void fail(std::string_view place, std::string_view text,
                       std::string_view expected, std::string_view hint = {}) {
  throw Error(Errc::invalid_argument, place,
              "cannot use this value: got " + in_quotes(text) + ", expected " +
                  std::string(expected),
              hint);
}

/// A bound that no machine reaches.
constexpr int kMostGpus = 1024;

DeviceChoice parse_device(std::string_view place, const std::string& item) {
  const std::string name = lowered(item);
  if (name == "cpu") {
    return {DeviceKind::cpu, std::nullopt};
  }
  const std::size_t colon = std::min(name.find(':'), name.size());
  const std::string_view kind = std::string_view(name).substr(0, colon);
  if (kind == "cuda" || kind == "gpu") {
    int index = -1;
    if (colon == name.size()) {
      return {DeviceKind::cuda, std::nullopt};
    }
    if (read_number(std::string_view(name).substr(colon + 1), index) &&
        index >= 0 && index < kMostGpus) {
      return {DeviceKind::cuda, index};
    }
  }
  throw Error(
      Errc::invalid_argument, place,
      "no such device: got " + in_quotes(item) +
          ", expected auto, cpu, cuda (all GPUs), cuda:N, or several with "
          "commas",
      suggestion(name,
                 std::vector<std::string>{"auto", "cpu", "cuda:0", "cuda"},
                 "troupe doctor lists the GPUs"));
}

constexpr std::size_t kMaxListBytes = std::size_t{1} << 20U;
constexpr double kLargestNumber = 1e9;

/// The text without one pair of brackets around it.
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
    values.push_back(parse_real(place, text.substr(0, end), -kLargestNumber,
                                kLargestNumber));
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

void fail_empty(std::string_view place) {
  throw Error(Errc::invalid_argument, place, "the value is empty",
              "was a shell variable meant that is not set?");
}

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

namespace {

/// "600s", "2777h".
std::string limit_text(double seconds) {
  constexpr double kHour = 3600;
  return seconds < kHour ? to_text(seconds) + "s"
                         : to_text(std::floor(seconds / kHour)) + "h";
}

}  // namespace

double parse_seconds(std::string_view place, std::string_view text, double min,
                     double max) {
  const std::string_view whole = trimmed(text);
  const char unit = whole.empty() ? '\0' : whole.back();
  const double factor = unit == 'h' ? 3600 : unit == 'm' ? 60 : 1;
  const bool has_unit = unit == 's' || unit == 'm' || unit == 'h';
  double value = 0;
  if (!read_number(whole.substr(0, whole.size() - (has_unit ? 1 : 0)), value) ||
      !std::isfinite(value)) {
    fail(place, text, "a time such as 60, 60s, 5m or 1h");
  }
  if (value * factor < min || value * factor > max) {
    fail(place, text,
         "a time from " + to_text(min) + " to " + limit_text(max) +
             ", such as 60, 60s, 5m or 1h");
  }
  return value * factor;
}

WaitWorkers parse_wait_workers(std::string_view place, std::string_view text) {
  constexpr const char* kExpected =
      "a number of processes, a time with its unit, or both: 4, 30s or 4,30s";
  constexpr std::int64_t kMostProcesses = 100'000;
  constexpr double kLongest = 1e7;
  WaitWorkers wait;
  for (const std::string& item : parse_list(place, text)) {
    const bool is_time = item.find_first_of("smh") != std::string::npos;
    if (is_time ? wait.seconds.has_value() : wait.processes > 0) {
      fail(place, text, kExpected);
    }
    if (is_time) {
      wait.seconds = parse_seconds(place, item, 0, kLongest);
    } else {
      wait.processes =
          static_cast<int>(parse_integer(place, item, 1, kMostProcesses));
    }
  }
  if (wait == WaitWorkers{}) {
    fail(place, text, kExpected);
  }
  return wait;
}

std::string to_string(const WaitWorkers& wait) {
  std::string text = wait.processes > 0 ? std::to_string(wait.processes) : "";
  if (wait.seconds) {
    text += (text.empty() ? "" : ",") + to_text(*wait.seconds) + "s";
  }
  return text;
}

bool is_no(std::string_view text) {
  return text == "false" || text == "no" || text == "off" || text == "0";
}

bool parse_bool(std::string_view place, std::string_view text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") {
    return true;
  }
  if (!is_no(text)) {
    fail(place, text, "true or false");
  }
  return false;
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

SampleRange Share::of(const SampleRange& run) const {
  return {run.begin + run.size() * index / count,
          run.begin + run.size() * (index + 1) / count};
}

Share parse_share(std::string_view place, std::string_view text) {
  constexpr std::uint64_t kMostParts = 1'000'000;
  const std::size_t slash = std::min(text.find('/'), text.size());
  Share share;
  if (!read_number(trimmed(text.substr(0, slash)), share.index) ||
      !read_number(trimmed(text.substr(std::min(slash + 1, text.size()))),
                   share.count) ||
      share.index >= share.count || share.count > kMostParts) {
    fail(place, text,
         "I/N with I below N: part I of N parts, counted from 0, such as 0/4");
  }
  return share;
}

std::string to_string(const Share& share) {
  return share.count == 1
             ? std::string()
             : std::to_string(share.index) + "/" + std::to_string(share.count);
}

PictureSize parse_size(std::string_view place, std::string_view text) {
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
  const auto fits = [](std::int64_t side) {
    return side > 0 && side <= kMostPixelsPerSide;
  };
  if (!read || !fits(size.width) || !fits(size.height)) {
    fail(place, text,
         "WIDTHxHEIGHT in pixels, 1 to " + std::to_string(kMostPixelsPerSide) +
             " each");
  }
  return size;
}

std::string to_string(const PictureSize& size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

namespace {

/// Stands for no upper bound: no schedule reaches it.
constexpr double kHighestSigma = 1e6;

}  // namespace

std::optional<samplers::SigmaRange> parse_sigma_range(std::string_view place,
                                                      std::string_view text) {
  const auto colon = text.find(':');
  require(colon != std::string_view::npos, Errc::invalid_argument,
          std::string(place),
          "no noise levels: got " + in_quotes(text) + ", expected LO:HI",
          "as troupe schedule shows them, like 0.3:5");
  const std::string_view low = text.substr(0, colon);
  const std::string_view high = text.substr(colon + 1);
  samplers::SigmaRange range{
      .low = low.empty() ? 0 : parse_real(place, low, 0, kHighestSigma),
      .high = high.empty() || high == "inf"
                  ? kHighestSigma
                  : parse_real(place, high, 0, kHighestSigma)};
  require(range.low < range.high, Errc::invalid_argument, std::string(place),
          "the lower noise level comes first: got " + in_quotes(text),
          "write it as LO:HI, like 0.3:5");
  if (range.low == 0 && range.high == kHighestSigma) {
    return std::nullopt;
  }
  return range;
}

std::string to_string(const samplers::SigmaRange& range) {
  return to_text(range.low) + ":" +
         (range.high < kHighestSigma ? to_text(range.high) : "inf");
}

std::string to_string(const std::optional<samplers::SigmaRange>& range) {
  return range ? to_string(*range) : "0:inf";
}

PictureCorner parse_corner(std::string_view place, std::string_view text) {
  const std::string_view wanted = trimmed(text);
  const std::size_t comma = std::min(wanted.find(','), wanted.size());
  const auto side = [&](std::string_view part, std::int64_t& value) {
    return read_number(part, value) && value >= 0 &&
           value <= kMostPixelsPerSide;
  };
  PictureCorner corner;
  if (comma == wanted.size() ||
      !side(trimmed(wanted.substr(0, comma)), corner.top) ||
      !side(trimmed(wanted.substr(comma + 1)), corner.left)) {
    fail(place, text,
         "TOP,LEFT in pixels, 0 to " + std::to_string(kMostPixelsPerSide) +
             " each");
  }
  return corner;
}

std::string to_string(const PictureCorner& corner) {
  return std::to_string(corner.top) + "," + std::to_string(corner.left);
}

std::vector<DeviceChoice> parse_devices(std::string_view place,
                                        std::string_view text) {
  const std::vector<std::string> items = parse_list(place, text);
  if (items.empty()) {
    fail_empty(place);
  }
  if (items.size() == 1 && lowered(items[0]) == "auto") {
    return {};
  }
  std::vector<DeviceChoice> devices;
  for (const std::string& item : items) {
    require(lowered(item) != "auto", Errc::invalid_argument, place,
            "auto stands alone: got " + in_quotes(text),
            "name the devices, or leave the choice to auto");
    const DeviceChoice device = parse_device(place, item);
    const bool is_double =
        std::ranges::any_of(devices, [&device](const DeviceChoice& other) {
          // "cuda" has every GPU in it.
          return other.kind == device.kind &&
                 (other.index == device.index || !other.index || !device.index);
        });
    require(!is_double, Errc::invalid_argument, place,
            "a device is named twice: got " + in_quotes(text),
            "several workers on one device: --workers");
    devices.push_back(device);
  }
  return devices;
}

std::string to_string(const std::vector<DeviceChoice>& devices) {
  std::string text;
  for (const DeviceChoice& device : devices) {
    text += text.empty() ? "" : ",";
    text += device.kind == DeviceKind::cpu ? "cpu" : "cuda";
    text += device.index ? ":" + std::to_string(*device.index) : "";
  }
  return text.empty() ? "auto" : text;
}

std::vector<double> parse_numbers(std::string_view place,
                                  std::string_view text) {
  if (!trimmed(text).starts_with('@')) {
    return read_list(place, text);
  }
  const std::string path(trimmed(text).substr(1));
  require(!path.empty(), Errc::invalid_argument, place,
          "no file is named after the @", "for example @sigmas.txt");
  const std::vector<double> values = read_list(std::string(place) + " " + path,
                                               read_file(path, kMaxListBytes));
  require(!values.empty(), Errc::invalid_argument, path,
          "no numbers are in this file",
          "write them with commas, spaces or line breaks between them");
  return values;
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
