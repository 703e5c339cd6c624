#include "kernels/cpu/rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows_elementwise.cpp"
#include <hwy/foreach_target.h>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::cpu::HWY_NAMESPACE {

template <typename In>
void add_gated_elements(const float* gate, const In* y, std::int64_t count,
                        float* x) {
  const F32 d;
  for_vectors(d, static_cast<std::size_t>(count),
              [&](std::size_t i, auto read, auto write) HWY_ATTR {
                const Vec product = hn::Mul(read(gate + i), read(y + i));
                write(hn::Add(read(x + i), product), x + i);
              });
}

void add_gated_row(const float* gate, Source y, std::int64_t count, float* x) {
  if (y.dtype == DType::bf16) {
    add_gated_elements(gate, static_cast<const bfloat16*>(y.data), count, x);
  } else {
    add_gated_elements(gate, static_cast<const float*>(y.data), count, x);
  }
}

template <typename In, typename Out>
void add_elements(const In* y, std::int64_t count, Out* x) {
  const F32 d;
  for_vectors(d, static_cast<std::size_t>(count),
              [&](std::size_t i, auto read, auto write) HWY_ATTR {
                write(hn::Add(read(x + i), read(y + i)), x + i);
              });
}

template <typename In, typename Out>
void convert_elements(const In* x, std::int64_t count, Out* out) {
  const F32 d;
  for_vectors(d, static_cast<std::size_t>(count),
              [&](std::size_t i, auto read, auto write)
                  HWY_ATTR { write(read(x + i), out + i); });
}

template <typename Fn>
void with_types(Source from, Target to, const Fn& fn) {
  const auto* from_f32 = static_cast<const float*>(from.data);
  const auto* from_bf16 = static_cast<const bfloat16*>(from.data);
  if (to.dtype == DType::f32) {
    auto* out = static_cast<float*>(to.data);
    from.dtype == DType::f32 ? fn(from_f32, out) : fn(from_bf16, out);
  } else {
    auto* out = static_cast<bfloat16*>(to.data);
    from.dtype == DType::f32 ? fn(from_f32, out) : fn(from_bf16, out);
  }
}

void add_row(Source y, std::int64_t count, Target x) {
  with_types(y, x, [count](const auto* from, auto* to) HWY_ATTR {
    add_elements(from, count, to);
  });
}

void convert_row(Source x, std::int64_t count, Target out) {
  with_types(x, out, [count](const auto* from, auto* to) HWY_ATTR {
    convert_elements(from, count, to);
  });
}

}  // namespace troupe::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels::cpu {

HWY_EXPORT(add_gated_row);
HWY_EXPORT(add_row);
HWY_EXPORT(convert_row);

void add_gated_row(const float* gate, Source y, std::int64_t count, float* x) {
  HWY_DYNAMIC_DISPATCH(add_gated_row)(gate, y, count, x);
}

void add_row(Source y, std::int64_t count, Target x) {
  HWY_DYNAMIC_DISPATCH(add_row)(y, count, x);
}

void convert_row(Source x, std::int64_t count, Target out) {
  HWY_DYNAMIC_DISPATCH(convert_row)(x, count, out);
}

}  // namespace troupe::kernels::cpu
#endif
