#pragma once

#include "kernels/patchify.h"

namespace troupe::kernels::cpu {

/// As in kernels/patchify.h; arguments are checked by the caller.
void patchify(const Tensor& x, std::int64_t patch_size, Tensor& out);
void unpatchify(const Tensor& x, std::int64_t patch_size, Tensor& out);
void to_channels_last(ExecContext& ctx, const Tensor& x, Tensor& out);
void to_channels_first(ExecContext& ctx, const Tensor& x, Tensor& out);

}  // namespace troupe::kernels::cpu
