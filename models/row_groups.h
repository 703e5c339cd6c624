#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "models/denoiser.h"

// Shared by all networks around their arithmetic: rows of a batch are checked,
// stacked in groups, computed together and unstacked. `place` names the network
// in error messages.

namespace troupe::models {

/// Errors: Errc::unsupported for a shard of the tokens.
void check_whole(std::string_view place, const ShardContext& shard);

/// Checks that the batch has `rows` timesteps and conditions, and with
/// `has_latents` as many latents. Errors: Errc::shape_mismatch.
void check_rows(std::string_view place, const Batch& batch, std::size_t rows,
                bool has_latents);

/// The shape of `tensors`. Errors: Errc::shape_mismatch unless all have the
/// same shape and are f32.
[[nodiscard]] Shape common_shape(std::string_view place, std::string_view what,
                                 std::span<const Tensor> tensors);

/// Rows [begin, begin + count) of a batch, which may lack latents.
[[nodiscard]] Batch rows_of(const Batch& batch, std::size_t begin,
                            std::size_t count);

/// Calls fn(begin, count) for groups of at most `most` rows, each in a
/// workspace scope of its own.
void for_each_group(
    ExecContext& ctx, std::size_t rows, std::int64_t most,
    const std::function<void(std::size_t begin, std::size_t count)>& fn);

/// Tensor `index` of each row's boundary. Errors: Errc::shape_mismatch unless
/// each boundary has `size` tensors, and those returned are f32 of one shape.
[[nodiscard]] std::vector<Tensor> boundary_tensors(
    std::string_view place, std::span<const Boundary> boundaries,
    std::size_t size, std::size_t index);

/// Copies rows […] to one tensor [B, …] in the workspace. Rows may lie on other
/// devices.
[[nodiscard]] Tensor stack_rows(ExecContext& ctx, std::span<const Tensor> rows);

/// Copies each item of `stacked` [B, …] to its row […]. Rows may lie on other
/// devices.
void unstack_rows(ExecContext& ctx, const Tensor& stacked,
                  std::span<Tensor> rows);

}  // namespace troupe::models
