#include <algorithm>

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
                  write(activation_vec<activation>(d, v), to + i);
                });
  }
}

template <Activation activation>
void finish_rows_gated(const float* acc, std::int64_t rows,
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
                  v = activation_vec<activation>(d, v);
                  // Product and sum rounded apart, as in add_gated_row.
                  v = hn::Mul(read(epilogue.gate + i), v);
                  write(hn::Add(read(to + i), v), to + i);
                });
  }
}

void finish_product(const float* acc, std::int64_t rows, std::int64_t columns,
                    const Epilogue& epilogue, Target out,
                    std::int64_t out_stride) {
  with_activation(epilogue.activation, [&]<Activation activation>() HWY_ATTR {
    if (epilogue.gate != nullptr) {
      finish_rows_gated<activation>(acc, rows, columns, epilogue,
                                    static_cast<float*>(out.data), out_stride);
      return;
    }
    const auto run = [&]<bool with_bias>() HWY_ATTR {
      if (out.dtype == DType::bf16) {
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
                write(activation_vec<activation>(d, read(x + i)), out + i);
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

template <typename Out>
void softmax_row(const float* x, std::int64_t columns, float scale,
                 float* row_scratch, Out* out) {
  const F32 d;
  const auto count = static_cast<std::size_t>(columns);
  const std::size_t lanes = hn::Lanes(d);
  Vec top = hn::Set(d, x[0]);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    top = hn::Max(top, hn::LoadU(d, x + i));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, top));
  for (; i < count; ++i) {
    largest = std::max(largest, x[i]);
  }
  const Vec shift = hn::Set(d, largest * scale);
  const Vec factor = hn::Set(d, scale);
  // Lanes beyond the end add e^(−inf) = 0, so the sum has one order per length.
  Vec total = hn::Zero(d);
  for (i = 0; i + lanes <= count; i += lanes) {
    const Vec e =
        exp_vec(d, hn::Sub(hn::Mul(hn::LoadU(d, x + i), factor), shift));
    hn::StoreU(e, d, row_scratch + i);
    total = hn::Add(total, e);
  }
  if (i < count) {
    const std::size_t rest = count - i;
    const Vec e =
        exp_vec(d, hn::Sub(hn::Mul(load_n(d, x + i, rest), factor), shift));
    const Vec kept = hn::IfThenElseZero(hn::FirstN(d, rest), e);
    store_n(d, kept, row_scratch + i, rest);
    total = hn::Add(total, kept);
  }
  const Vec inverse = hn::Set(d, 1.0F / hn::GetLane(hn::SumOfLanes(d, total)));
  for_vectors(d, count, [&](std::size_t k, auto read, auto write) HWY_ATTR {
    write(hn::Mul(read(row_scratch + k), inverse), out + k);
  });
}

void softmax_rows(const float* x, std::int64_t rows, std::int64_t columns,
                  float scale, float* row_scratch, Target out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    if (out.dtype == DType::bf16) {
      softmax_row(x + row * columns, columns, scale, row_scratch,
                  static_cast<bfloat16*>(out.data) + row * columns);
    } else {
      softmax_row(x + row * columns, columns, scale, row_scratch,
                  static_cast<float*>(out.data) + row * columns);
    }
  }
}

}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(finish_product);
HWY_EXPORT(activate_row);
HWY_EXPORT(softmax_rows);

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

void softmax_rows(const float* x, std::int64_t rows, std::int64_t columns,
                  float scale, float* row_scratch, Target out) {
  HWY_DYNAMIC_DISPATCH(softmax_rows)
  (x, rows, columns, scale, row_scratch, out);
}

}  // namespace troupe::kernels::cpu
#endif
