#include <algorithm>
#include <cstring>

#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_activation.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {

template <Activation activation, bool with_bias, typename Out>
void finish_rows(const float* acc, std::int64_t rows, std::int64_t columns,
                 const float* bias, Out* out, std::int64_t out_stride) {
  const F32 d;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = acc + row * columns;
    Out* to = out + row * out_stride;
    for_vectors(d, static_cast<std::size_t>(columns),
                [&](std::size_t i, auto read, auto write) HWY_ATTR {
                  Vec v = read(from + i);
                  if constexpr (with_bias) {
                    v = hn::Add(v, read(bias + i));
                  }
                  write(activation_vec<activation, Out>(d, v), to + i);
                });
  }
}

template <Activation activation>
void add_finished_rows(const float* acc, std::int64_t rows,
                       std::int64_t columns, const Epilogue& epilogue,
                       float* out, std::int64_t out_stride) {
  const F32 d;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = acc + row * columns;
    float* to = out + row * out_stride;
    for_vectors(d, static_cast<std::size_t>(columns),
                [&](std::size_t i, auto read, auto write) HWY_ATTR {
                  Vec v = read(from + i);
                  if (epilogue.bias != nullptr) {
                    v = hn::Add(v, read(epilogue.bias + i));
                  }
                  v = activation_vec<activation, float>(d, v);
                  if (epilogue.gate != nullptr) {
                    // Product and sum rounded apart, as in add_gated_row.
                    v = hn::Mul(read(epilogue.gate + i), v);
                  }
                  write(hn::Add(read(to + i), v), to + i);
                });
  }
}

void finish_product(const float* acc, std::int64_t rows, std::int64_t columns,
                    const Epilogue& epilogue, Target out,
                    std::int64_t out_stride) {
  with_activation(epilogue.activation, [&]<Activation activation>() HWY_ATTR {
    if (epilogue.adds) {
      add_finished_rows<activation>(acc, rows, columns, epilogue,
                                    static_cast<float*>(out.data), out_stride);
      return;
    }
    const auto run = [&]<bool with_bias>() HWY_ATTR {
      if (out.dtype == DType::bf16 && writes_native_bfloat16()) {
        finish_rows<activation, with_bias>(
            acc, rows, columns, epilogue.bias,
            static_cast<NativeBfloat16*>(out.data), out_stride);
      } else if (out.dtype == DType::bf16) {
        finish_rows<activation, with_bias>(acc, rows, columns, epilogue.bias,
                                           static_cast<bfloat16*>(out.data),
                                           out_stride);
      } else {
        finish_rows<activation, with_bias>(acc, rows, columns, epilogue.bias,
                                           static_cast<float*>(out.data),
                                           out_stride);
      }
    };
    if (epilogue.bias != nullptr) {
      run.template operator()<true>();
    } else {
      run.template operator()<false>();
    }
  });
}

template <Activation activation, typename In, typename Out>
void activate_elements(const In* x, std::int64_t count, Out* out) {
  const F32 d;
  for_vectors(d, static_cast<std::size_t>(count),
              [&](std::size_t i, auto read, auto write) HWY_ATTR {
                write(activation_vec<activation, Out>(d, read(x + i)), out + i);
              });
}

void activate_row(Source x, std::int64_t count, Activation activation,
                  Target out) {
  with_activation(activation, [&]<Activation a>() HWY_ATTR {
    const auto* from_f32 = static_cast<const float*>(x.data);
    const auto* from_bf16 = static_cast<const bfloat16*>(x.data);
    auto* to_f32 = static_cast<float*>(out.data);
    auto* to_bf16 = static_cast<bfloat16*>(out.data);
    if (x.dtype == DType::f32 && out.dtype == DType::f32) {
      activate_elements<a>(from_f32, count, to_f32);
    } else if (x.dtype == DType::f32) {
      activate_elements<a>(from_f32, count, to_bf16);
    } else if (out.dtype == DType::f32) {
      activate_elements<a>(from_bf16, count, to_f32);
    } else {
      activate_elements<a>(from_bf16, count, to_bf16);
    }
  });
}

template <Activation activation, typename In, typename Out>
void activate_gated_elements(const In* x, const In* gate, std::int64_t count,
                             Out* out) {
  const F32 d;
  for_vectors(d, static_cast<std::size_t>(count),
              [&](std::size_t i, auto read, auto write) HWY_ATTR {
                const Vec open =
                    activation_vec<activation, Out>(d, read(gate + i));
                write(hn::Mul(read(x + i), open), out + i);
              });
}

void activate_gated_row(Source x, Source gate, std::int64_t count,
                        Activation activation, Target out) {
  with_activation(activation, [&]<Activation a>() HWY_ATTR {
    const auto run = [&]<typename In>(In /*type*/) HWY_ATTR {
      const auto* from = static_cast<const In*>(x.data);
      const auto* gates = static_cast<const In*>(gate.data);
      if (out.dtype == DType::f32) {
        activate_gated_elements<a>(from, gates, count,
                                   static_cast<float*>(out.data));
      } else {
        activate_gated_elements<a>(from, gates, count,
                                   static_cast<bfloat16*>(out.data));
      }
    };
    if (x.dtype == DType::f32) {
      run(float{});
    } else {
      run(bfloat16{});
    }
  });
}

HWY_INLINE Vec row_maximum(F32 d, const float* x, std::size_t count) {
  const std::size_t lanes = hn::Lanes(d);
  Vec first = hn::Set(d, x[0]);
  Vec second = first;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    first = hn::Max(first, load(d, x + i));
    second = hn::Max(second, load(d, x + i + lanes));
  }
  first = hn::MaxOfLanes(d, hn::Max(first, second));
  float largest = hn::GetLane(first);
  for (; i < count; ++i) {
    largest = std::max(largest, x[i]);
  }
  return hn::Set(d, largest);
}

/// e^(scale · (x − top)) for x ≤ top.
template <bool coarse>
class Powers {
 public:
  Powers(F32 d, Vec top, float scale) : d_(d) {
    if constexpr (coarse) {
      const float factor = scale * 1.44269504F;
      top_ = hn::Mul(top, hn::Set(d, factor));
      factor_ = hn::Set(d, factor);
    } else {
      top_ = top;
      factor_ = hn::Set(d, scale);
    }
  }
  HWY_INLINE Vec operator()(Vec x) const {
    if constexpr (coarse) {
      // The product is rounded once, with the difference; what top lost is a
      // factor that all share.
      const Vec exponent = hn::MulSub(x, factor_, top_);
      return coarse_power_of_two(d_, hn::Max(hn::Set(d_, -126.0F), exponent));
    } else {
      return exp_vec(d_, hn::Mul(hn::Sub(x, top_), factor_));
    }
  }

 private:
  F32 d_;
  Vec top_;
  Vec factor_;
};

/// out = e^(scale · (x − max)); returns the sum, in an order fixed by
/// `columns`. `top`, unless it is null, gets the maximum.
template <typename Out>
float exp_row(const float* x, std::int64_t columns, float scale, Out* out,
              float* top = nullptr) {
  const F32 d;
  const auto count = static_cast<std::size_t>(columns);
  const std::size_t lanes = hn::Lanes(d);
  const Vec largest = row_maximum(d, x, count);
  if (top != nullptr) {
    *top = hn::GetLane(largest);
  }
  const Powers<!std::is_same_v<Out, float>> power(d, largest, scale);
  Vec first = hn::Zero(d);
  Vec second = first;
  std::size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const Vec a = power(load(d, x + i));
    const Vec b = power(load(d, x + i + lanes));
    first = hn::Add(first, a);
    second = hn::Add(second, b);
    store(d, a, out + i);
    store(d, b, out + i + lanes);
  }
  for (; i < count; i += lanes) {
    const std::size_t rest = std::min(lanes, count - i);
    const Vec e = power(load_n(d, x + i, rest));
    first = hn::Add(first, hn::IfThenElseZero(hn::FirstN(d, rest), e));
    store_n(d, e, out + i, rest);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(first, second)));
}

template <typename Out>
void exp_rows_to(const float* x, std::int64_t rows, std::int64_t columns,
                 float scale, void* out, float* sums, float* tops) {
  for (std::int64_t row = 0; row < rows; ++row) {
    sums[row] = exp_row(x + row * columns, columns, scale,
                        static_cast<Out*>(out) + row * columns,
                        tops == nullptr ? nullptr : tops + row);
  }
}

void exp_rows(const float* x, std::int64_t rows, std::int64_t columns,
              float scale, Target out, float* sums, float* tops) {
  if (out.dtype == DType::f32) {
    exp_rows_to<float>(x, rows, columns, scale, out.data, sums, tops);
  } else if (writes_native_bfloat16()) {
    exp_rows_to<NativeBfloat16>(x, rows, columns, scale, out.data, sums, tops);
  } else {
    exp_rows_to<bfloat16>(x, rows, columns, scale, out.data, sums, tops);
  }
}

void merge_rows(const PowerRows& more, std::int64_t rows, std::int64_t columns,
                float scale, const PowerRows& merged) {
  const F32 d;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float top = std::max(merged.tops[row], more.tops[row]);
    // e^(scale · (x − top)) is a power relative to x's own top, times this.
    const auto rescale = [&](float its_top) HWY_ATTR {
      return exp_vec(d, hn::Set(d, (its_top - top) * scale));
    };
    const Vec kept = rescale(merged.tops[row]);
    const Vec added = rescale(more.tops[row]);
    const float* from = more.rows + row * columns;
    float* to = merged.rows + row * columns;
    for_vectors(
        d, static_cast<std::size_t>(columns),
        [&](std::size_t i, auto read, auto write) HWY_ATTR {
          write(hn::MulAdd(read(from + i), added, hn::Mul(read(to + i), kept)),
                to + i);
        });
    merged.sums[row] =
        hn::GetLane(hn::MulAdd(hn::Set(d, more.sums[row]), added,
                               hn::Mul(hn::Set(d, merged.sums[row]), kept)));
    merged.tops[row] = top;
  }
}

template <typename Out>
void exp_masked_rows_to(float* x, std::int64_t rows, std::int64_t columns,
                        float scale, const LogitsMask& mask, void* out,
                        float* sums) {
  const F32 d;
  const Vec factor = hn::Set(d, scale);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* logits = x + row * columns;
    Out* to = static_cast<Out*>(out) + row * columns;
    const std::int64_t seen =
        mask.causal ? std::min(columns, mask.first_row + row + 1) : columns;
    if (mask.bias != nullptr) {
      const float* bias = mask.bias + row * mask.bias_stride;
      for_vectors(d, static_cast<std::size_t>(seen),
                  [&](std::size_t i, auto read, auto write) HWY_ATTR {
                    write(hn::MulAdd(read(logits + i), factor, read(bias + i)),
                          logits + i);
                  });
    }
    sums[row] = exp_row(logits, seen, mask.bias != nullptr ? 1.0F : scale, to);
    // All bits zero is 0 in each of the types.
    std::memset(static_cast<void*>(to + seen), 0,
                static_cast<std::size_t>(columns - seen) * sizeof(Out));
  }
}

void exp_masked_rows(float* x, std::int64_t rows, std::int64_t columns,
                     float scale, const LogitsMask& mask, Target out,
                     float* sums) {
  if (out.dtype == DType::f32) {
    exp_masked_rows_to<float>(x, rows, columns, scale, mask, out.data, sums);
  } else if (writes_native_bfloat16()) {
    exp_masked_rows_to<NativeBfloat16>(x, rows, columns, scale, mask, out.data,
                                       sums);
  } else {
    exp_masked_rows_to<bfloat16>(x, rows, columns, scale, mask, out.data, sums);
  }
}

template <typename Out>
void divide(const float* x, std::int64_t rows, std::int64_t columns,
            const float* divisors, Out* out, std::int64_t out_stride) {
  const F32 d;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* from = x + row * columns;
    Out* to = out + row * out_stride;
    const Vec inverse = hn::Set(d, 1.0F / divisors[row]);
    for_vectors(d, static_cast<std::size_t>(columns),
                [&](std::size_t i, auto read, auto write) HWY_ATTR {
                  write(hn::Mul(read(from + i), inverse), to + i);
                });
  }
}

void divide_rows(const float* x, std::int64_t rows, std::int64_t columns,
                 const float* divisors, Target out, std::int64_t out_stride) {
  if (out.dtype == DType::bf16) {
    divide(x, rows, columns, divisors, static_cast<bfloat16*>(out.data),
           out_stride);
  } else {
    divide(x, rows, columns, divisors, static_cast<float*>(out.data),
           out_stride);
  }
}

}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(finish_product);
HWY_EXPORT(activate_row);
HWY_EXPORT(activate_gated_row);
HWY_EXPORT(exp_rows);
HWY_EXPORT(merge_rows);
HWY_EXPORT(exp_masked_rows);
HWY_EXPORT(divide_rows);

void finish_product(const float* acc, std::int64_t rows, std::int64_t columns,
                    const Epilogue& epilogue, Target out,
                    std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(finish_product)
  (acc, rows, columns, epilogue, out, out_stride);
}

void activate_row(Source x, std::int64_t count, Activation activation,
                  Target out) {
  HWY_DYNAMIC_DISPATCH(activate_row)(x, count, activation, out);
}

void activate_gated_row(Source x, Source gate, std::int64_t count,
                        Activation activation, Target out) {
  HWY_DYNAMIC_DISPATCH(activate_gated_row)(x, gate, count, activation, out);
}

void exp_rows(const float* x, std::int64_t rows, std::int64_t columns,
              float scale, Target out, float* sums, float* tops) {
  HWY_DYNAMIC_DISPATCH(exp_rows)(x, rows, columns, scale, out, sums, tops);
}

void merge_rows(const PowerRows& more, std::int64_t rows, std::int64_t columns,
                float scale, const PowerRows& merged) {
  HWY_DYNAMIC_DISPATCH(merge_rows)(more, rows, columns, scale, merged);
}

void exp_masked_rows(float* x, std::int64_t rows, std::int64_t columns,
                     float scale, const LogitsMask& mask, Target out,
                     float* sums) {
  HWY_DYNAMIC_DISPATCH(exp_masked_rows)
  (x, rows, columns, scale, mask, out, sums);
}

void divide_rows(const float* x, std::int64_t rows, std::int64_t columns,
                 const float* divisors, Target out, std::int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(divide_rows)
  (x, rows, columns, divisors, out, out_stride);
}

}  // namespace troupe::kernels::cpu
#endif
