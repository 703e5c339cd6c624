#pragma once

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Scales a picture until it covers the sides of `out`, and keeps its middle.
/// Bilinear between pixel centres. Both tensors are on the host, whatever ctx's
/// device is: pictures are written there.
///
/// Shapes: x [C, H, W], out [C, H', W'], f32, no side of them 0.
/// Bits:   do not depend on threads. Equal sides: a copy.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument.
/// Source: diffusers image_processor.py, `resize_and_crop_tensor`; torch's
///         `interpolate(mode="bilinear", align_corners=False)`, whose positions
///         are f32, too. Where rounding down leaves the scaled picture one
///         pixel short of `out`, diffusers keeps a single row or column of it;
///         here it is scaled by that pixel more.
void resize_and_crop(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels
