#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Element-wise nonlinearity, alone or fused behind a linear layer. The values
/// enter hashes of configurations: new ones come last.
enum class Activation : std::uint8_t {
  none,
  silu,
  gelu_tanh,
  gelu_erf,
  relu,
  mish,
  gelu_sigmoid  ///< x · σ(1.702 x)
};

/// out = activation(x). x f32 or bf16 (on a GPU also f16), out of the same
/// shape and any of these types; may alias x when the dtypes agree. Relative
/// error ≤ 1e-6 for x > −8 (gelu_tanh: x > −3, gelu_sigmoid: x > −4), absolute
/// error ≤ 2e-8 below;
/// where out has 16 bits, 3e-4 before it is rounded;
/// same bits on every call of one build and ISA, wherever the element lies. NaN
/// stays NaN. Source: Hendrycks & Gimpel 2016, arXiv:1606.08415 (GELU, all
/// three forms); Misra 2019, arXiv:1908.08681 (Mish).
void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out);

/// out = a · activation(b) where every row of x is a and b side by side: a
/// gated linear unit. x [..., 2W], out [..., W]; dtypes and errors as
/// `activate`, and the product is rounded once. `out` may not alias x. Source:
/// Shazeer 2020, arXiv:2002.05202.
void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out);

/// out = softmax(x) over the last axis; f32; may alias x.
void softmax(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels
