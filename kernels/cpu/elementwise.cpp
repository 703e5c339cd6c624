#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/core/polynomials.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/rows.h"

// From combine on these are plain loops on purpose: compiled once for every
// x86-64, with multiplications and additions that round one by one, they give
// the same bits on all of them. Latents are small.
namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t kPieceElements = 16384;
constexpr std::int64_t kPieceRows = 16;
constexpr std::int64_t kCombineBlock = 512;
constexpr std::size_t kSumLanes = 8;

template <typename Fn>
void for_pieces(ExecContext& ctx, std::int64_t count, const Fn& fn) {
  ctx.pool().run((count + kPieceElements - 1) / kPieceElements,
                 [&](std::int64_t piece, int /*thread*/) {
                   const std::int64_t begin = piece * kPieceElements;
                   fn(begin, std::min(kPieceElements, count - begin));
                 });
}

/// Calls fn(row) for rows of [0, count) in pieces.
template <typename Fn>
void for_rows(ExecContext& ctx, std::int64_t count, const Fn& fn) {
  ctx.pool().run((count + kPieceRows - 1) / kPieceRows, [&](std::int64_t piece,
                                                            int /*thread*/) {
    const std::int64_t end = std::min(count, (piece + 1) * kPieceRows);
    for (std::int64_t row = piece * kPieceRows; row < end; ++row) {
      fn(row);
    }
  });
}

/// Σ value(i) over i < count: element i goes to lane i mod 8, lanes are added
/// pairwise at the end.
template <typename Value>
double sum_in_lanes(std::int64_t count, const Value& value) {
  std::array<double, kSumLanes> lanes{};
  std::int64_t i = 0;
  constexpr auto kStep = static_cast<std::int64_t>(kSumLanes);
  for (; i + kStep <= count; i += kStep) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
      lanes[lane] += value(i + static_cast<std::int64_t>(lane));
    }
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    lanes[lane] += value(i);
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// The standard deviation of a tensor's elements, which is not empty.
float deviation(const Tensor& x) {
  const auto* values = x.data<float>();
  const auto count = static_cast<double>(x.num_elements());
  const double sum =
      sum_in_lanes(x.num_elements(), [=](std::int64_t i) { return values[i]; });
  const double squares = std::max(sum_squares(x) - sum / count * sum, 0.0);
  return static_cast<float>(std::sqrt(squares / (count - 1)));
}

}  // namespace

void add_gated(ExecContext& ctx, const Tensor& modulation,
               std::int64_t gate_column, const Tensor& y, Tensor& x) {
  if (x.empty()) {
    return;
  }
  const std::int64_t rows_per_item = x.dim(1);
  const std::int64_t width = x.dim(2);
  for_rows(ctx, x.dim(0) * rows_per_item, [&](std::int64_t row) {
    const float* gate = modulation.data<float>() +
                        row / rows_per_item * modulation.dim(1) + gate_column;
    add_gated_row(gate, Source(y).at(row * width), width,
                  x.data<float>() + row * width);
  });
}

void add_channels(ExecContext& ctx, const Tensor& vectors, std::int64_t column,
                  Tensor& x) {
  if (x.empty()) {
    return;
  }
  const std::int64_t width = x.dim(x.shape().rank() - 1);
  const std::int64_t rows = x.num_elements() / width;
  const std::int64_t rows_per_item = rows / x.dim(0);
  const Source from(vectors);
  for_rows(ctx, rows, [&](std::int64_t row) {
    add_row(from.at(row / rows_per_item * vectors.dim(1) + column), width,
            Target(x).at(row * width));
  });
}

void add(ExecContext& ctx, const Tensor& y, Tensor& x) {
  for_pieces(ctx, x.num_elements(),
             [&](std::int64_t begin, std::int64_t count) {
               add_row(Source(y).at(begin), count, Target(x).at(begin));
             });
}

void convert(ExecContext& ctx, const Tensor& x, Tensor& out) {
  for_pieces(ctx, x.num_elements(),
             [&](std::int64_t begin, std::int64_t count) {
               if (x.dtype() != DType::f16) {
                 convert_row(Source(x).at(begin), count, Target(out).at(begin));
                 return;
               }
               const float16* from = x.data<float16>() + begin;
               float* to = out.data<float>() + begin;
               for (std::int64_t i = 0; i < count; ++i) {
                 to[i] = from[i].to_float();
               }
             });
}

void combine(std::span<const Term> terms, Tensor& out) {
  const std::int64_t count = out.num_elements();
  if (count == 0) {
    return;
  }
  auto* to = out.data<float>();
  std::array<float, kCombineBlock> sum;
  // A whole block is computed before it is stored, as out may be any term.
  for (std::int64_t begin = 0; begin < count; begin += kCombineBlock) {
    const auto length =
        static_cast<std::size_t>(std::min(kCombineBlock, count - begin));
    const auto first = static_cast<float>(terms[0].coefficient);
    const float* from = terms[0].tensor->data<float>() + begin;
    for (std::size_t i = 0; i < length; ++i) {
      sum[i] = first * from[i];
    }
    for (const Term& term : terms.subspan(1)) {
      const auto coefficient = static_cast<float>(term.coefficient);
      const float* next = term.tensor->data<float>() + begin;
      for (std::size_t i = 0; i < length; ++i) {
        sum[i] += coefficient * next[i];
      }
    }
    std::memcpy(to + begin, sum.data(), length * sizeof(float));
  }
}

void clamp(float low, float high, Tensor& x) {
  if (x.empty()) {
    return;
  }
  for (float& value : x.span<float>()) {
    // NaN compares false with both.
    const float raised = value < low ? low : value;
    value = raised > high ? high : raised;
  }
}

void guide(const Tensor& cond, const Tensor& uncond, float scale,
           std::int64_t num_guided, Tensor& out) {
  const auto c = cond.span<float>();
  const auto u = uncond.span<float>();
  const auto o = out.span<float>();
  const auto guided = static_cast<std::size_t>(num_guided);
  for (std::size_t i = 0; i < guided; ++i) {
    o[i] = u[i] + scale * (c[i] - u[i]);
  }
  for (std::size_t i = guided; i < o.size(); ++i) {
    o[i] = c[i];
  }
}

void rescale_deviation(const Tensor& like, double share, Tensor& x) {
  if (x.empty()) {
    return;
  }
  const float factor = deviation(like) / deviation(x);
  const auto part = static_cast<float>(share);
  const auto rest = static_cast<float>(1.0 - share);
  for (float& value : x.span<float>()) {
    value = part * (value * factor) + rest * value;
  }
}

void scale_by_learned_variance(const Tensor& variance, bool is_range, float low,
                               float high, Tensor& noise) {
  if (noise.empty()) {
    return;
  }
  const auto v = variance.span<float>();
  const auto n = noise.span<float>();
  for (std::size_t i = 0; i < n.size(); ++i) {
    if (is_range) {
      const float part = (v[i] + 1.0F) / 2.0F;
      n[i] *= detail::exp_float(0.5F * (part * high + (1.0F - part) * low));
    } else {
      n[i] *= std::sqrt(v[i]);
    }
  }
}

double sum_squared_difference(const Tensor& a, const Tensor& b) {
  if (a.empty()) {
    return 0;
  }
  const auto* left = a.data<float>();
  const auto* right = b.data<float>();
  return sum_in_lanes(a.num_elements(), [=](std::int64_t i) {
    const double difference =
        static_cast<double>(left[i]) - static_cast<double>(right[i]);
    return difference * difference;
  });
}

double sum_squares(const Tensor& a) {
  if (a.empty()) {
    return 0;
  }
  const auto* values = a.data<float>();
  return sum_in_lanes(a.num_elements(), [=](std::int64_t i) {
    const double value = values[i];
    return value * value;
  });
}

bool all_finite(const Tensor& x) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  if (x.empty()) {
    return true;
  }
  std::uint32_t bad = 0;
  for (const float value : x.span<float>()) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    bad |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

void add_carry(const Tensor& step, float carry, const Tensor& x_new,
               const Tensor& x_old, Tensor& out) {
  if (step.empty()) {
    return;
  }
  if (bytes_equal(x_new, x_old)) {
    if (out.bytes().data() != step.bytes().data()) {
      std::memcpy(out.bytes().data(), step.bytes().data(), step.num_bytes());
    }
    return;
  }
  const auto* from = step.data<float>();
  const auto* moved = x_new.data<float>();
  const auto* stood = x_old.data<float>();
  auto* to = out.data<float>();
  const std::int64_t count = step.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from[i] + carry * (moved[i] - stood[i]);
  }
}

}  // namespace troupe::kernels::cpu
