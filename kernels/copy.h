#pragma once

#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Copies all elements; shapes and dtypes agree. Each side is on the host or on
/// a device of ctx's kind (another GPU too). A host target is complete on
/// return, a device target in the order of ctx's queue; a host source may be
/// reused at once.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes),
/// Errc::internal for a device that ctx cannot reach.
void copy(ExecContext& ctx, const Tensor& from, Tensor& to);

/// The tensor itself if it already is on ctx's device, else a copy there.
[[nodiscard]] Tensor on_device(ExecContext& ctx, const Tensor& tensor);
/// The same, the original held as by `ExecContext::keep`: for operands that
/// another context wrote and may let go of.
[[nodiscard]] Tensor borrow(ExecContext& ctx, const Tensor& tensor);
/// The tensor itself if it already is on the host, else a complete copy there.
[[nodiscard]] Tensor on_host(ExecContext& ctx, const Tensor& tensor);
/// The tensor itself if it already is on the host, else a copy there that is on
/// its way: complete when a mark that ctx takes afterwards has passed, and not
/// to be touched before. Nothing waits. The copy may be let go at any time, the
/// tensor as an operand of any other work may (another context's: `keep`).
/// Errors: Errc::invalid_argument for a device that is not ctx's;
/// Errc::out_of_memory, Errc::device_full; Errc::internal while ctx's work is
/// recorded.
[[nodiscard]] Tensor read_back(ExecContext& ctx, const Tensor& tensor);
/// A deep copy on ctx's device.
[[nodiscard]] Tensor clone(ExecContext& ctx, const Tensor& tensor);

/// Copies tensors of one shape into the rows of one tensor, and back: out[r] =
/// rows[r], rows[r] = in[r]. A row has the shape of the whole without its first
/// axis, and its dtype; rows may be views that start at any element, and must
/// not overlap what is written. All on ctx's device, any dtype; on a GPU it is
/// one launch for every 64 rows.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, devices).
void gather(ExecContext& ctx, std::span<const Tensor> rows, Tensor& out);
void scatter(ExecContext& ctx, const Tensor& in, std::span<Tensor> rows);

}  // namespace troupe::kernels
