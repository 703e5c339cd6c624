// A table file: ratio, height and width of each bin.
#include "models/pixart/resolution_bins.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::models {
namespace {

/// For sides of about 1024 pixels. The tables for 512 and 256 have the same
/// ratios, and sides of a half and a quarter.
constexpr auto kBins1024 = std::to_array<ResolutionBin>({
    {0.25, 512, 2048}, {0.28, 512, 1856}, {0.32, 576, 1792}, {0.33, 576, 1728},
    {0.35, 576, 1664}, {0.4, 640, 1600},  {0.42, 640, 1536}, {0.48, 704, 1472},
    {0.5, 704, 1408},  {0.52, 704, 1344}, {0.57, 768, 1344}, {0.6, 768, 1280},
    {0.68, 832, 1216}, {0.72, 832, 1152}, {0.78, 896, 1152}, {0.82, 896, 1088},
    {0.88, 960, 1088}, {0.94, 960, 1024}, {1.0, 1024, 1024}, {1.07, 1024, 960},
    {1.13, 1088, 960}, {1.21, 1088, 896}, {1.29, 1152, 896}, {1.38, 1152, 832},
    {1.46, 1216, 832}, {1.67, 1280, 768}, {1.75, 1344, 768}, {2.0, 1408, 704},
    {2.09, 1472, 704}, {2.4, 1536, 640},  {2.5, 1600, 640},  {3.0, 1728, 576},
    {4.0, 2048, 512},
});

/// For sides of about 2048 pixels: more ratios.
constexpr auto kBins2048 = std::to_array<ResolutionBin>({
    {0.25, 1024, 4096}, {0.26, 1024, 3968}, {0.27, 1024, 3840},
    {0.28, 1024, 3712}, {0.32, 1152, 3584}, {0.33, 1152, 3456},
    {0.35, 1152, 3328}, {0.4, 1280, 3200},  {0.42, 1280, 3072},
    {0.48, 1408, 2944}, {0.5, 1408, 2816},  {0.52, 1408, 2688},
    {0.57, 1536, 2688}, {0.6, 1536, 2560},  {0.68, 1664, 2432},
    {0.72, 1664, 2304}, {0.78, 1792, 2304}, {0.82, 1792, 2176},
    {0.88, 1920, 2176}, {0.94, 1920, 2048}, {1.0, 2048, 2048},
    {1.07, 2048, 1920}, {1.13, 2176, 1920}, {1.21, 2176, 1792},
    {1.29, 2304, 1792}, {1.38, 2304, 1664}, {1.46, 2432, 1664},
    {1.67, 2560, 1536}, {1.75, 2688, 1536}, {2.0, 2816, 1408},
    {2.09, 2944, 1408}, {2.4, 3072, 1280},  {2.5, 3200, 1280},
    {2.89, 3328, 1152}, {3.0, 3456, 1152},  {3.11, 3584, 1152},
    {3.62, 3712, 1024}, {3.75, 3840, 1024}, {3.88, 3968, 1024},
    {4.0, 4096, 1024},
});

template <std::size_t N>
constexpr std::array<ResolutionBin, N> divided(
    std::array<ResolutionBin, N> bins, std::int64_t by) {
  for (ResolutionBin& bin : bins) {
    bin.height /= by;
    bin.width /= by;
  }
  return bins;
}

constexpr auto kBins512 = divided(kBins1024, 2);
constexpr auto kBins256 = divided(kBins1024, 4);

}  // namespace

std::span<const ResolutionBin> pixart_bins(std::int64_t sample_size) {
  switch (sample_size) {
    case 32:
      return kBins256;
    case 64:
      return kBins512;
    case 128:
      return kBins1024;
    case 256:
      return kBins2048;
    default:
      return {};
  }
}

const ResolutionBin& nearest_bin(std::span<const ResolutionBin> bins,
                                 std::int64_t height, std::int64_t width) {
  const double ratio = static_cast<double>(height) / static_cast<double>(width);
  return *std::ranges::min_element(bins, {}, [&](const ResolutionBin& bin) {
    return std::abs(bin.ratio - ratio);
  });
}

}  // namespace troupe::models
