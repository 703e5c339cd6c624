#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "kernels/core/context.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"

namespace troupe::kernels {

/// Argument checks shared by the ops; `place` is the op's name.
/// Errors: Errc::shape_mismatch.
inline void check_shape(std::string_view place, std::string_view what,
                        const Shape& got, const Shape& expected) {
  if (!(got == expected)) {
    throw Error(Errc::shape_mismatch, place,
                "wrong shape of " + std::string(what) + ": got " +
                    to_string(got) + ", expected " + to_string(expected));
  }
}

/// Errors: Errc::shape_mismatch.
inline void check_rank(std::string_view place, std::string_view what,
                       const Tensor& tensor, std::size_t rank) {
  if (tensor.shape().rank() != rank) {
    throw Error(Errc::shape_mismatch, place,
                "wrong rank of " + std::string(what) + ": got " +
                    to_string(tensor.shape()) + ", expected " +
                    std::to_string(rank) + " axes");
  }
}

/// Errors: Errc::invalid_argument.
inline void check_dtype(std::string_view place, std::string_view what,
                        const Tensor& tensor,
                        std::initializer_list<DType> allowed) {
  std::string names;
  for (const DType dtype : allowed) {
    if (tensor.dtype() == dtype) {
      return;
    }
    names += (names.empty() ? "" : " or ") + std::string(to_string(dtype));
  }
  throw Error(Errc::invalid_argument, place,
              "wrong element type of " + std::string(what) + ": got " +
                  std::string(to_string(tensor.dtype())) + ", expected " +
                  names);
}

/// Refuses types that operations on `device` do not compute with: anything but
/// f32 and bf16, and on a GPU f16. Errors: Errc::invalid_argument.
inline void check_float(std::string_view place, std::string_view what,
                        const Tensor& tensor, Device device) {
  if (device.kind != DeviceKind::cpu) {
    check_dtype(place, what, tensor, {DType::f32, DType::bf16, DType::f16});
  } else {
    check_dtype(place, what, tensor, {DType::f32, DType::bf16});
  }
}

/// Columns [first, first + width) must lie inside a row of `row` columns.
/// Errors: Errc::shape_mismatch.
inline void check_columns(std::string_view place, std::string_view what,
                          std::int64_t first, std::int64_t width,
                          std::int64_t row) {
  if (first < 0 || width < 0 || width > row || first > row - width) {
    throw Error(Errc::shape_mismatch, place,
                "columns of " + std::string(what) + " out of range: got " +
                    std::to_string(first) + " + " + std::to_string(width) +
                    ", expected at most " + std::to_string(row));
  }
}

/// The size of the whole item: `whole`, or `here` if `whole` is 0. `here` is
/// the size of the part that an op was given.
/// Errors: Errc::shape_mismatch.
inline std::int64_t check_whole(std::string_view place, std::string_view what,
                                std::int64_t here, std::int64_t whole) {
  if (whole != 0 && whole < here) {
    throw Error(Errc::shape_mismatch, place,
                "a shard larger than its item: got " + std::to_string(here) +
                    " " + std::string(what) + " of " + std::to_string(whole));
  }
  return whole == 0 ? here : whole;
}

/// Every operand lives where the op runs. Errors: Errc::invalid_argument.
inline void check_device(std::string_view place, Device device,
                         std::initializer_list<const Tensor*> operands) {
  for (const Tensor* tensor : operands) {
    if (!(tensor->device() == device)) {
      throw Error(Errc::invalid_argument, place,
                  "operand on another device: got " +
                      to_string(tensor->device()) + ", expected " +
                      to_string(device));
    }
  }
}

/// Ends an op on a device kind that this build has no kernels for.
[[noreturn]] inline void throw_no_backend(std::string_view place,
                                          Device device) {
  throw Error(Errc::unsupported, place, "no kernels for " + to_string(device),
              "run on the CPU (--device cpu)");
}

}  // namespace troupe::kernels
