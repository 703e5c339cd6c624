#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cpu/ops.h"

namespace troupe::kernels::cpu {
namespace {

/// The two pixels of a line that one pixel of the result lies between.
struct Between {
  std::int64_t near = 0;
  std::int64_t far = 0;
  float weight = 0;  ///< of `far`
};

/// One for each of `wanted` pixels, the middle ones of a line of `from` pixels
/// that is scaled to `scaled`.
std::vector<Between> middle_of_line(std::int64_t from, std::int64_t scaled,
                                    std::int64_t wanted) {
  const float step = static_cast<float>(from) / static_cast<float>(scaled);
  const std::int64_t begin = (scaled - wanted) / 2;
  std::vector<Between> line(static_cast<std::size_t>(wanted));
  for (std::int64_t i = 0; i < wanted; ++i) {
    const float at =
        std::max(step * (static_cast<float>(begin + i) + 0.5F) - 0.5F, 0.0F);
    Between& pixel = line[static_cast<std::size_t>(i)];
    pixel.near = std::min(static_cast<std::int64_t>(at), from - 1);
    pixel.far = std::min(pixel.near + 1, from - 1);
    pixel.weight = std::min(at - static_cast<float>(pixel.near), 1.0F);
  }
  return line;
}

float mixed(float near, float far, float weight) {
  return (1.0F - weight) * near + weight * far;
}

}  // namespace

void resize_and_crop(ExecContext& ctx, const Tensor& x, Tensor& out) {
  if (x.shape() == out.shape()) {
    std::memcpy(out.bytes().data(), x.bytes().data(), x.num_bytes());
    return;
  }
  const std::int64_t height = x.dim(1);
  const std::int64_t width = x.dim(2);
  const std::int64_t new_height = out.dim(1);
  const std::int64_t new_width = out.dim(2);
  const auto ratio = [](std::int64_t to, std::int64_t from) {
    return static_cast<double>(to) / static_cast<double>(from);
  };
  const double scale =
      std::max(ratio(new_height, height), ratio(new_width, width));
  const auto line = [&](std::int64_t from, std::int64_t wanted) {
    const auto scaled =
        static_cast<std::int64_t>(static_cast<double>(from) * scale);
    return middle_of_line(from, std::max(scaled, wanted), wanted);
  };
  const std::vector<Between> rows = line(height, new_height);
  const std::vector<Between> columns = line(width, new_width);
  const auto* from = x.data<float>();
  auto* to = out.data<float>();
  ctx.pool().run(out.dim(0) * new_height, [&](std::int64_t r, int /*thread*/) {
    const Between& row = rows[static_cast<std::size_t>(r % new_height)];
    const float* plane = from + r / new_height * height * width;
    const float* near = plane + row.near * width;
    const float* far = plane + row.far * width;
    float* target = to + r * new_width;
    for (const Between& column : columns) {
      *target++ = mixed(
          mixed(near[column.near], near[column.far], column.weight),
          mixed(far[column.near], far[column.far], column.weight), row.weight);
    }
  });
}

}  // namespace troupe::kernels::cpu
