#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "samplers/guidance.h"

namespace troupe::config {

/// Reads all of `text` as a number; false if T cannot hold it, or for other
/// text.
template <typename T>
[[nodiscard]] bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && rest == end && !text.empty();
}

/// Text to values, whole and checked. `place` says where the text stood
/// ("--steps", "TROUPE_STEPS", "run.toml: steps") and opens the message.
/// Errors (all): Errc::invalid_argument.

[[nodiscard]] std::int64_t parse_integer(std::string_view place,
                                         std::string_view text,
                                         std::int64_t min, std::int64_t max);
/// From −2^63 to 2^64 − 1; a negative seed is its two's complement, as in
/// torch.Generator.manual_seed: −1 is 2^64 − 1.
[[nodiscard]] std::uint64_t parse_seed(std::string_view place,
                                       std::string_view text);
/// Finite, in [min, max].
[[nodiscard]] double parse_real(std::string_view place, std::string_view text,
                                double min, double max);
/// A time in seconds, in [min, max]: "90", "1.5s", "2m" or "0.5h".
[[nodiscard]] double parse_seconds(std::string_view place,
                                   std::string_view text, double min,
                                   double max);
/// For whom a job waits before it begins.
struct WaitWorkers {
  int processes = 0;              ///< of troupe worker; 0: as many as come
  std::optional<double> seconds;  ///< at most; unset: as long as it takes

  friend bool operator==(const WaitWorkers&, const WaitWorkers&) = default;
};
/// "4": so many processes, "30s": so long, "4,30s": so many, and no longer than
/// that. A time has its unit.
[[nodiscard]] WaitWorkers parse_wait_workers(std::string_view place,
                                             std::string_view text);
[[nodiscard]] std::string to_string(const WaitWorkers& wait);

/// Noise levels "LO:HI", 0 ≤ LO < HI; either side may be missing, and HI may be
/// "inf". Unset: all levels.
[[nodiscard]] std::optional<samplers::SigmaRange> parse_sigma_range(
    std::string_view place, std::string_view text);
[[nodiscard]] std::string to_string(const samplers::SigmaRange& range);
[[nodiscard]] std::string to_string(
    const std::optional<samplers::SigmaRange>& range);

/// true/false, yes/no, on/off, 1/0.
[[nodiscard]] bool parse_bool(std::string_view place, std::string_view text);
/// Whether parse_bool reads `text` as false.
[[nodiscard]] bool is_no(std::string_view text);
/// Comma-separated; spaces around items are dropped; an empty text is an empty
/// list, an empty item an error.
[[nodiscard]] std::vector<std::string> parse_list(std::string_view place,
                                                  std::string_view text);

/// The most samples of one command.
inline constexpr std::uint64_t kMaxSamples = 10'000'000;

/// Samples [begin, end) of a job, as global indices.
struct SampleRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 1;

  [[nodiscard]] std::uint64_t size() const noexcept { return end - begin; }
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// "8" is [0, 8), "8:16" is [8, 16).
[[nodiscard]] SampleRange parse_range(std::string_view place,
                                      std::string_view text);
[[nodiscard]] std::string to_string(const SampleRange& range);

/// Part `index` of `count` parts of a run's samples, which differ by one sample
/// at most.
struct Share {
  std::uint64_t index = 0;
  std::uint64_t count = 1;

  /// The part's samples, of those of the run; none if there are more parts.
  [[nodiscard]] SampleRange of(const SampleRange& run) const;
};
/// "2/8" is the third of eight. Errors: Errc::invalid_argument.
[[nodiscard]] Share parse_share(std::string_view place, std::string_view text);
[[nodiscard]] std::string to_string(const Share& share);

/// The largest side of a requested picture.
inline constexpr std::int64_t kMostPixelsPerSide = 16384;

/// Of a picture, in pixels.
struct PictureSize {
  std::int64_t width = 0;
  std::int64_t height = 0;

  friend bool operator==(const PictureSize&, const PictureSize&) = default;
};
/// "512x384": width and height; "512": a square. 1 to 16384 a side.
/// Errors: Errc::invalid_argument.
[[nodiscard]] PictureSize parse_size(std::string_view place,
                                     std::string_view text);
[[nodiscard]] std::string to_string(const PictureSize& size);

/// A corner of a picture, in pixels from the top and from the left.
struct PictureCorner {
  std::int64_t top = 0;
  std::int64_t left = 0;

  friend bool operator==(const PictureCorner&, const PictureCorner&) = default;
};
/// "64,0": top and left, 0 to 16384 each. Errors: Errc::invalid_argument.
[[nodiscard]] PictureCorner parse_corner(std::string_view place,
                                         std::string_view text);
[[nodiscard]] std::string to_string(const PictureCorner& corner);

/// A device as --device names it.
struct DeviceChoice {
  DeviceKind kind = DeviceKind::cpu;
  std::optional<int> index;  ///< of a GPU; unset: all there are

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};
/// "auto" (nothing chosen: empty), "cpu", "cuda" (all GPUs), "cuda:0", or
/// several of these with commas; "gpu" is read as "cuda".
/// Errors: Errc::invalid_argument for an unknown word, with the nearest known
/// word; for "auto" among others; for a device named twice.
[[nodiscard]] std::vector<DeviceChoice> parse_devices(std::string_view place,
                                                      std::string_view text);
[[nodiscard]] std::string to_string(const std::vector<DeviceChoice>& devices);

/// Numbers as people write lists of them: separated by commas, spaces or line
/// breaks, in brackets or not ("14.6, 3.2 1.0", "[14.6 3.2 1.0]"). "@FILE"
/// takes the same from a text file of at most 1 MiB. No text is no number.
/// Errors: Errc::invalid_argument for anything else; those of read_file.
[[nodiscard]] std::vector<double> parse_numbers(std::string_view place,
                                                std::string_view text);

/// Refuses an empty value, which is mostly a shell variable that was not set.
[[noreturn]] void fail_empty(std::string_view place);

/// Index of `text` in `names`. Errors name the nearest one.
[[nodiscard]] std::size_t parse_choice(std::string_view place,
                                       std::string_view text,
                                       const std::vector<std::string>& names);

/// Shortest decimal text that reads back to the same double.
[[nodiscard]] std::string to_text(double value);

}  // namespace troupe::config
