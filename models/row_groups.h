#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "models/denoiser.h"

// What every network does around its arithmetic: rows are checked, joined in
// groups, computed together and dealt out again. `place` names the network in
// errors.

namespace troupe::models {

/// Checks that the batch has so many rows; their latents too, if `has_latents`.
/// Errors: Errc::shape_mismatch.
void check_rows(std::string_view place, const Batch& batch, std::size_t rows,
                bool has_latents);

/// The one shape of all these tensors, which are f32.
/// Errors: Errc::shape_mismatch.
[[nodiscard]] Shape common_shape(std::string_view place, std::string_view what,
                                 std::span<const Tensor> tensors);

/// Rows [begin, begin + count) of a batch, with latents or without.
[[nodiscard]] Batch rows_of(const Batch& batch, std::size_t begin,
                            std::size_t count);

/// Calls fn(begin, count) for groups of at most `most` rows, each in a
/// workspace scope of its own.
void for_each_group(
    ExecContext& ctx, std::size_t rows, std::int64_t most,
    const std::function<void(std::size_t begin, std::size_t count)>& fn);

/// Tensor `index` of each row's boundary. Errors: Errc::shape_mismatch for a
/// boundary of another size, or tensors that are not all of one shape, f32.
[[nodiscard]] std::vector<Tensor> boundary_tensors(
    std::string_view place, std::span<const Boundary> boundaries,
    std::size_t size, std::size_t index);

/// Rows side by side in the workspace, [B, …]. They may lie on other devices.
[[nodiscard]] Tensor joined(ExecContext& ctx, std::span<const Tensor> rows);

/// And back to where each row lies.
void deal_out(ExecContext& ctx, const Tensor& joined, std::span<Tensor> rows);

}  // namespace troupe::models
