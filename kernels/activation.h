#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// An element-wise nonlinearity. The numbers enter hashes of configurations:
/// add new ones at the end.
enum class Activation : std::uint8_t {
  none,
  silu,
  gelu_tanh,
  gelu_erf,
  relu,
  mish,
  gelu_sigmoid  ///< x · σ(1.702 x)
};

/// out = activation(x).
///
/// Shapes: x of any shape, f32 or bf16 (on a GPU also f16); out of the same
///         shape and any of these types. out may alias x if their dtypes agree.
/// Error:  relative ≤ 1e-6 for x > −8 (gelu_tanh: −3, gelu_sigmoid: −4),
///         absolute ≤ 2e-8 for smaller x. Where out has 16 bits: 3e-4 before
///         the rounding. NaN stays NaN.
/// Bits:   the same on every call of one build and ISA, wherever an element
///         lies.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, devices).
/// Source: Hendrycks & Gimpel 2016, arXiv:1606.08415 (GELU, all three forms);
/// Misra 2019, arXiv:1908.08681 (Mish).
void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out);

/// A gated linear unit: out = a · activation(b), where the first half of each
/// row of x is a and the second half is b. With gelu_erf this is GEGLU as UNets
/// have it. Where a checkpoint's gate comes first or has weights of its own
/// (T5: gelu_tanh of wi_0 times wi_1), the order of the packed weights puts it
/// into the second half.
///
/// Shapes: x [..., 2W], out [..., W]; out must not alias x. Dtypes, errors:
///         as `activate`; the product is rounded once.
/// Source: Shazeer 2020, arXiv:2002.05202.
void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out);

}  // namespace troupe::kernels
