#pragma once

#include "kernels/activation.h"

namespace troupe::kernels::cpu {

/// As in kernels/activation.h; arguments are checked by the caller.
void activate(ExecContext& ctx, const Tensor& x, Activation activation,
              Tensor& out);
void activate_gated(ExecContext& ctx, const Tensor& x, Activation activation,
                    Tensor& out);
void softmax(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels::cpu
