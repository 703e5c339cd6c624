#pragma once

#include <cstdint>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::samplers {

/// Classifier-free guidance: out = uncond + scale · (cond − uncond) on the
/// first `guided_channels` channels, cond on the rest (diffusers' DiT takes
/// the learned-variance channels from the conditional branch). All [C, …]
/// f32; out may alias either. f32 arithmetic in exactly this order.
/// Source: Ho & Salimans 2022, arXiv:2207.12598.
void combine_guidance(ExecContext& ctx, const Tensor& cond,
                      const Tensor& uncond, double scale,
                      std::int64_t guided_channels, Tensor& out);

}  // namespace troupe::samplers
