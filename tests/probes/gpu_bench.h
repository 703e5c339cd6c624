// How gpu_probe times a case and prints it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kernels/copy.h"
#include "kernels/core/context.h"
#include "kernels/core/noise.h"
#include "kernels/elementwise.h"

namespace troupe {

inline constexpr int kRepeats = 20;
/// Calls per measurement, queued one behind the other.
inline constexpr int kQueued = 10;

struct Bench {
  ExecContext& ctx;
  double scale;
  std::string only;

  [[nodiscard]] std::int64_t scaled(std::int64_t count) const {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(count) * scale));
  }
  [[nodiscard]] bool wants(const std::string& name) const {
    return only.empty() || only == name;
  }

  /// Random numbers: zeros run faster than data.
  [[nodiscard]] Tensor random(const Shape& shape, DType dtype) {
    Tensor host(shape, DType::f32);
    fill_normal({.seed = ++seed_}, host);
    Tensor there = kernels::on_device(ctx, host);
    if (dtype == DType::f32) {
      return there;
    }
    Tensor converted = ctx.empty(shape, dtype);
    kernels::convert(ctx, there, converted);
    return converted;
  }

  [[nodiscard]] double median_ms(const std::function<void()>& call) const {
    for (int i = 0; i < 3; ++i) {
      call();
    }
    ctx.synchronize();
    std::vector<double> times;
    for (int r = 0; r < kRepeats; ++r) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kQueued; ++i) {
        call();
      }
      ctx.synchronize();
      times.push_back(std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - start)
                          .count() /
                      kQueued);
    }
    std::ranges::sort(times);
    return times[times.size() / 2];
  }

  void print_bytes(const char* name, double bytes,
                   const std::function<void()>& call) const {
    const double ms = median_ms(call);
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, \"gb_per_s\": %.1f}\n", name,
                ms, bytes / ms * 1e-6);
    std::fflush(stdout);
  }
  void print_flops(const char* name, double flops,
                   const std::function<void()>& call) const {
    const double ms = median_ms(call);
    std::printf("{\"case\": \"%s\", \"ms\": %.4f, \"tflop_per_s\": %.1f}\n",
                name, ms, flops / ms * 1e-9);
    std::fflush(stdout);
  }

  std::uint64_t seed_ = 0;
};

inline double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.num_bytes());
}

/// Text encoders' and UNets' operations, a case each (kernels/bench_cases.h).
void bench_prompted(Bench& bench);

}  // namespace troupe
