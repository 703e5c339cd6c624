#include "kernels/embedding.h"

#include <cmath>

#include "kernels/check.h"
#include "kernels/copy.h"

// Tables of a few thousand values, made on the CPU on every device: f64
// functions rounded once to f32, so a last-bit difference between two versions
// of libm does not show.
namespace troupe::kernels {

namespace {

void fill_rows(std::span<const double> timesteps, double denominator,
               double max_period, Tensor& out) {
  const std::int64_t dim = out.dim(1);
  const std::int64_t half = dim / 2;
  const auto slope = static_cast<float>(-std::log(max_period));
  auto* row = out.data<float>();
  for (const double timestep : timesteps) {
    for (std::int64_t i = 0; i < half; ++i) {
      // torch multiplies, then divides, in f32.
      const float exponent =
          slope * static_cast<float>(i) / static_cast<float>(denominator);
      const auto frequency =
          static_cast<float>(std::exp(static_cast<double>(exponent)));
      const auto angle =
          static_cast<double>(static_cast<float>(timestep) * frequency);
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
    if (dim % 2 != 0) {
      row[dim - 1] = 0;
    }
    row += dim;
  }
}

}  // namespace

void timestep_embedding(ExecContext& ctx, std::span<const double> timesteps,
                        double shift, double max_period, Tensor& out) {
  constexpr std::string_view kPlace = "timestep_embedding";
  check_device(kPlace, ctx.device(), {&out});
  check_rank(kPlace, "out", out, 2);
  check_dtype(kPlace, "out", out, {DType::f32});
  check_shape(kPlace, "out", out.shape(),
              {static_cast<std::int64_t>(timesteps.size()), out.dim(1)});
  const std::int64_t half = out.dim(1) / 2;
  const double denominator = static_cast<double>(half) - shift;
  if (half > 0 && !(denominator > 0)) {
    throw Error(Errc::invalid_argument, kPlace,
                "the shift leaves no frequencies: got " +
                    std::to_string(shift) + ", expected less than " +
                    std::to_string(half));
  }
  if (out.empty()) {
    return;
  }
  if (out.device().kind == DeviceKind::cpu) {
    return fill_rows(timesteps, denominator, max_period, out);
  }
  Tensor rows(out.shape(), DType::f32);
  fill_rows(timesteps, denominator, max_period, rows);
  copy(ctx, rows, out);
}

Tensor sincos_2d(std::int64_t dim, std::int64_t height, std::int64_t width,
                 std::int64_t base, double interpolation) {
  if (dim < 4 || dim % 4 != 0 || height < 0 || width < 0 || base < 1 ||
      !(interpolation > 0)) {
    throw Error(Errc::invalid_argument, "sincos_2d",
                "impossible table: got width " + std::to_string(dim) + " for " +
                    std::to_string(height) + " × " + std::to_string(width) +
                    ", base " + std::to_string(base) + ", interpolation " +
                    std::to_string(interpolation) +
                    ", expected a multiple of 4 and positive scales");
  }
  const std::int64_t quarter = dim / 4;
  // The grid is f32 and divided twice, the angles are f64.
  const auto coordinate = [&](std::int64_t index, std::int64_t extent) {
    const auto scale = static_cast<float>(static_cast<double>(extent) /
                                          static_cast<double>(base));
    return static_cast<double>(static_cast<float>(index) / scale /
                               static_cast<float>(interpolation));
  };
  const auto write = [&](double position, float* to) {
    for (std::int64_t k = 0; k < quarter; ++k) {
      const double omega =
          1.0 / std::pow(10000.0,
                         static_cast<double>(k) / static_cast<double>(quarter));
      to[k] = static_cast<float>(std::sin(position * omega));
      to[quarter + k] = static_cast<float>(std::cos(position * omega));
    }
  };
  Tensor table({height * width, dim}, DType::f32);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      float* row = table.data<float>() + (y * width + x) * dim;
      write(coordinate(x, width), row);
      write(coordinate(y, height), row + 2 * quarter);
    }
  }
  return table;
}

}  // namespace troupe::kernels
