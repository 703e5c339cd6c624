#pragma once

#include <span>

#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Copies all elements; shapes and dtypes agree. Each side is on the host or on
/// a device of ctx's kind (also another GPU). A host target is complete on
/// return; a device target is written in the order of ctx's queue. A host
/// source may be reused at once.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes),
/// Errc::internal for a device that ctx cannot reach.
void copy(ExecContext& ctx, const Tensor& from, Tensor& to);

/// Copies columns [from_first, from_first + count) of every row of `from` to
/// those of `to` from `to_first` on. A row is an item of axis 0, its columns
/// are its elements. Both have as many rows and one dtype. `to` is on ctx's
/// device, `from` on that device or on another GPU.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, devices).
void copy_columns(ExecContext& ctx, const Tensor& from, std::int64_t from_first,
                  Tensor& to, std::int64_t to_first, std::int64_t count);

/// The tensor itself if it already is on ctx's device, else a copy there.
[[nodiscard]] Tensor on_device(ExecContext& ctx, const Tensor& tensor);
/// The same; the original is held as by `ExecContext::keep`. For operands that
/// another context wrote and may release.
[[nodiscard]] Tensor borrow(ExecContext& ctx, const Tensor& tensor);
/// The tensor itself if it already is on the host, else a complete copy there.
[[nodiscard]] Tensor on_host(ExecContext& ctx, const Tensor& tensor);
/// The tensor itself if it already is on the host. Otherwise queues a copy to
/// the host and returns it without waiting: the copy is complete when a mark
/// that ctx takes afterwards has passed, and nobody may touch it before that.
/// The copy may be released at any time; `tensor` may be released like an
/// operand of any other queued work (one of another context needs `keep`).
/// Errors: Errc::invalid_argument for a device that is not ctx's;
/// Errc::out_of_memory, Errc::device_full; Errc::internal while ctx's work is
/// recorded.
[[nodiscard]] Tensor read_back(ExecContext& ctx, const Tensor& tensor);
/// A deep copy on ctx's device.
[[nodiscard]] Tensor clone(ExecContext& ctx, const Tensor& tensor);

/// gather: out[r] = rows[r]. scatter: rows[r] = in[r]. Each row has the shape
/// of `out` or `in` without its first axis, and the same dtype, which may be
/// any. Rows may be views that start at any element; sources and targets must
/// not overlap. All on ctx's device. On a GPU this is one launch for every 64
/// rows.
/// Errors: Errc::shape_mismatch, Errc::invalid_argument (dtypes, devices).
void gather(ExecContext& ctx, std::span<const Tensor> rows, Tensor& out);
void scatter(ExecContext& ctx, const Tensor& in, std::span<Tensor> rows);

}  // namespace troupe::kernels
