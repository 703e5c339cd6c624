#include <cmath>

#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_norm.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {

/// Σ term(x) with four running vectors; the order follows from `columns`.
template <typename In, typename Term>
HWY_INLINE float row_sum(F32 d, const In* x, std::size_t columns,
                         const Term& term) {
  const std::size_t lanes = hn::Lanes(d);
  Vec s0 = hn::Zero(d);
  Vec s1 = s0;
  Vec s2 = s0;
  Vec s3 = s0;
  std::size_t i = 0;
  for (; i + 4 * lanes <= columns; i += 4 * lanes) {
    s0 = hn::Add(s0, term(load(d, x + i)));
    s1 = hn::Add(s1, term(load(d, x + i + lanes)));
    s2 = hn::Add(s2, term(load(d, x + i + 2 * lanes)));
    s3 = hn::Add(s3, term(load(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= columns; i += lanes) {
    s0 = hn::Add(s0, term(load(d, x + i)));
  }
  if (i < columns) {
    const std::size_t rest = columns - i;
    s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, rest),
                                        term(load_n(d, x + i, rest))));
  }
  return hn::GetLane(
      hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

template <bool is_offset, typename Out>
void normalise_row(const float* x, const float* shift, const float* scale,
                   std::int64_t columns, float eps, Out* out) {
  const F32 d;
  const auto count = static_cast<std::size_t>(columns);
  const auto width = static_cast<float>(columns);
  const float mean =
      row_sum(d, x, count, [](Vec v) HWY_ATTR { return v; }) / width;
  const Vec centre = hn::Set(d, mean);
  const float variance = row_sum(d, x, count,
                                 [&](Vec v) HWY_ATTR {
                                   const Vec difference = hn::Sub(v, centre);
                                   return hn::Mul(difference, difference);
                                 }) /
                         width;
  const Vec inverse = hn::Set(d, 1.0F / std::sqrt(variance + eps));
  for_vectors(d, count, [&](std::size_t i, auto read, auto write) HWY_ATTR {
    const Vec normal = hn::Mul(hn::Sub(read(x + i), centre), inverse);
    Vec factor = read(scale + i);
    if constexpr (is_offset) {
      factor = hn::Add(hn::Set(d, 1.0F), factor);
    }
    write(hn::MulAdd(normal, factor, read(shift + i)), out + i);
  });
}

/// Calls fn(data) with what writes out's type.
template <typename Fn>
HWY_INLINE void with_writer(Target out, const Fn& fn) {
  if (out.dtype == DType::f32) {
    fn(static_cast<float*>(out.data));
  } else if (writes_native_bfloat16()) {
    fn(static_cast<NativeBfloat16*>(out.data));
  } else {
    fn(static_cast<bfloat16*>(out.data));
  }
}

void layer_norm_row(const float* x, const float* shift, const float* scale,
                    bool is_offset, std::int64_t columns, float eps,
                    Target out) {
  with_writer(out, [&](auto* to) HWY_ATTR {
    if (is_offset) {
      normalise_row<true>(x, shift, scale, columns, eps, to);
    } else {
      normalise_row<false>(x, shift, scale, columns, eps, to);
    }
  });
}

template <typename In, typename Out>
void rms_row(const In* x, const float* weight, std::int64_t columns, float eps,
             Out* out) {
  const F32 d;
  const auto count = static_cast<std::size_t>(columns);
  const float squares =
      row_sum(d, x, count, [](Vec v) HWY_ATTR { return hn::Mul(v, v); });
  const Vec inverse =
      hn::Set(d, 1.0F / std::sqrt(squares / static_cast<float>(columns) + eps));
  for_vectors(d, count, [&](std::size_t i, auto read, auto write) HWY_ATTR {
    write(hn::Mul(hn::Mul(read(x + i), inverse), read(weight + i)), out + i);
  });
}

void rms_norm_row(Source x, const float* weight, std::int64_t columns,
                  float eps, Target out) {
  if (x.dtype == DType::f32) {
    with_writer(out, [&](auto* to) HWY_ATTR {
      rms_row(static_cast<const float*>(x.data), weight, columns, eps, to);
    });
  } else if (out.dtype == DType::f32) {
    rms_row(static_cast<const bfloat16*>(x.data), weight, columns, eps,
            static_cast<float*>(out.data));
  } else {
    rms_row(static_cast<const bfloat16*>(x.data), weight, columns, eps,
            static_cast<bfloat16*>(out.data));
  }
}

template <typename In>
void moments(const In* x, std::int64_t rows, std::int64_t columns, double* sums,
             double* squares) {
  using F64 = hn::ScalableTag<double>;
  const F64 d64;
  const hn::Rebind<float, F64> d32;
  const auto count = static_cast<std::size_t>(columns);
  const std::size_t lanes = hn::Lanes(d64);
  for (std::int64_t row = 0; row < rows; ++row) {
    const In* from = x + row * columns;
    std::size_t i = 0;
    if constexpr (std::is_same_v<In, float>) {
      for (; i + lanes <= count; i += lanes) {
        const auto v = hn::PromoteTo(d64, hn::LoadU(d32, from + i));
        hn::StoreU(hn::Add(hn::LoadU(d64, sums + i), v), d64, sums + i);
        hn::StoreU(hn::Add(hn::LoadU(d64, squares + i), hn::Mul(v, v)), d64,
                   squares + i);
      }
    }
    for (; i < count; ++i) {
      double v = 0;
      if constexpr (std::is_same_v<In, float>) {
        v = from[i];
      } else {
        v = from[i].to_float();
      }
      sums[i] += v;
      squares[i] += v * v;
    }
  }
}

void add_moments(Source x, std::int64_t rows, std::int64_t columns,
                 double* sums, double* squares) {
  if (x.dtype == DType::bf16) {
    moments(static_cast<const bfloat16*>(x.data), rows, columns, sums, squares);
  } else {
    moments(static_cast<const float*>(x.data), rows, columns, sums, squares);
  }
}

template <Activation activation, typename T>
void scale_shift(const T* x, std::int64_t rows, std::int64_t columns,
                 const float* factor, const float* offset, T* out) {
  const F32 d;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* from = x + row * columns;
    T* to = out + row * columns;
    for_vectors(d, static_cast<std::size_t>(columns),
                [&](std::size_t i, auto read, auto write) HWY_ATTR {
                  const Vec v = hn::MulAdd(read(from + i), read(factor + i),
                                           read(offset + i));
                  write(activation_vec<activation, T>(d, v), to + i);
                });
  }
}

void scale_shift_rows(Source x, std::int64_t rows, std::int64_t columns,
                      const float* factor, const float* offset,
                      Activation activation, Target out) {
  with_activation(activation, [&]<Activation a>() HWY_ATTR {
    if (x.dtype == DType::bf16) {
      scale_shift<a>(static_cast<const bfloat16*>(x.data), rows, columns,
                     factor, offset, static_cast<bfloat16*>(out.data));
    } else {
      scale_shift<a>(static_cast<const float*>(x.data), rows, columns, factor,
                     offset, static_cast<float*>(out.data));
    }
  });
}

const char* vector_isa() { return hwy::TargetName(HWY_TARGET); }

}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(layer_norm_row);
HWY_EXPORT(rms_norm_row);
HWY_EXPORT(add_moments);
HWY_EXPORT(scale_shift_rows);
HWY_EXPORT(vector_isa);

void layer_norm_row(const float* x, const float* shift, const float* scale,
                    bool is_offset, std::int64_t columns, float eps,
                    Target out) {
  HWY_DYNAMIC_DISPATCH(layer_norm_row)
  (x, shift, scale, is_offset, columns, eps, out);
}

void rms_norm_row(Source x, const float* weight, std::int64_t columns,
                  float eps, Target out) {
  HWY_DYNAMIC_DISPATCH(rms_norm_row)(x, weight, columns, eps, out);
}

void add_moments(Source x, std::int64_t rows, std::int64_t columns,
                 double* sums, double* squares) {
  HWY_DYNAMIC_DISPATCH(add_moments)(x, rows, columns, sums, squares);
}

void scale_shift_rows(Source x, std::int64_t rows, std::int64_t columns,
                      const float* factor, const float* offset,
                      Activation activation, Target out) {
  HWY_DYNAMIC_DISPATCH(scale_shift_rows)
  (x, rows, columns, factor, offset, activation, out);
}

const char* vector_isa() { return HWY_DYNAMIC_DISPATCH(vector_isa)(); }

}  // namespace troupe::kernels::cpu
#endif
