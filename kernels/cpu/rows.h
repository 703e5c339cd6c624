#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/core/dtype.h"
#include "kernels/core/tensor.h"

/// Vectorised inner loops over rows, compiled for several instruction sets; the
/// one to use is chosen at run time. An element's bits depend on its row alone:
/// not on its address, nor on how many rows one call covers.
namespace troupe::kernels::cpu {

/// True when the library selected an instruction set that converts to bf16.
[[nodiscard]] bool writes_native_bfloat16();

/// Elements of type f32 or bf16 to read.
struct Source {
  const void* data;
  DType dtype;

  Source(const void* d, DType t) : data(d), dtype(t) {}
  explicit Source(const Tensor& tensor)
      : data(tensor.bytes().data()), dtype(tensor.dtype()) {}
  [[nodiscard]] Source at(std::int64_t element) const {
    return {static_cast<const std::byte*>(data) +
                element * static_cast<std::int64_t>(size_of(dtype)),
            dtype};
  }
};

/// Elements of type f32 or bf16 to write.
struct Target {
  void* data;
  DType dtype;

  Target(void* d, DType t) : data(d), dtype(t) {}
  explicit Target(Tensor& tensor)
      : data(tensor.bytes().data()), dtype(tensor.dtype()) {}
  [[nodiscard]] Target at(std::int64_t element) const {
    return {static_cast<std::byte*>(data) +
                element * static_cast<std::int64_t>(size_of(dtype)),
            dtype};
  }
};

/// What is done with a matrix product: y = activation(acc + bias), then out =
/// y. If it `adds`, out (f32) += y, or with a `gate` out += gate · y. `bias`
/// and `gate` have one value per column and may be null.
struct Epilogue {
  const float* bias = nullptr;
  Activation activation = Activation::none;
  bool adds = false;
  const float* gate = nullptr;
};

/// out = epilogue(acc). acc: dense [rows, columns]; out: rows `out_stride`
/// elements apart.
void finish_product(const float* acc, std::int64_t rows, std::int64_t columns,
                    const Epilogue& epilogue, Target out,
                    std::int64_t out_stride);

void activate_row(Source x, std::int64_t count, Activation activation,
                  Target out);

/// out = x · activation(gate); x and gate of one type.
void activate_gated_row(Source x, Source gate, std::int64_t count,
                        Activation activation, Target out);

/// A softmax without its division: out = e^(scale · (x − largest of the row)),
/// and sums[row] = the sum of out's row. Rows are dense; `out` may be x itself.
/// tops[row] = the largest of x's row, unless `tops` is null.
void exp_rows(const float* x, std::int64_t rows, std::int64_t columns,
              float scale, Target out, float* sums, float* tops = nullptr);

/// Rows of a product with powers (exp_rows), without the division by `sums`.
struct PowerRows {
  float* rows;  ///< dense
  float* sums;
  float* tops;
};

/// Adds rows of other columns of the same logits to `merged`. `more` may be
/// lost.
void merge_rows(const PowerRows& more, std::int64_t rows, std::int64_t columns,
                float scale, const PowerRows& merged);

/// What exp_masked_rows changes in a block of logits.
struct LogitsMask {
  const float* bias = nullptr;   ///< of the first row; null: none
  std::int64_t bias_stride = 0;  ///< from row to row
  bool causal = false;
  std::int64_t first_row = 0;  ///< causal: of the block, in its item
};

/// exp_rows of scale · x + bias, over columns 0…first_row + row alone if
/// `causal`; the others of `out` are 0. Without bias and causal it has the
/// bytes of exp_rows. x is scratch afterwards.
void exp_masked_rows(float* x, std::int64_t rows, std::int64_t columns,
                     float scale, const LogitsMask& mask, Target out,
                     float* sums);

/// out = x / divisors[row]. x: dense rows; out: rows `out_stride` elements
/// apart; out may be x.
void divide_rows(const float* x, std::int64_t rows, std::int64_t columns,
                 const float* divisors, Target out, std::int64_t out_stride);

/// out = (x − mean)/√(var + eps)·factor + shift for one row, where factor is
/// 1 + scale with `is_offset`, otherwise scale. out may be x itself.
void layer_norm_row(const float* x, const float* shift, const float* scale,
                    bool is_offset, std::int64_t columns, float eps,
                    Target out);

/// out = x · weight / √(mean(x²) + eps) for one row.
void rms_norm_row(Source x, const float* weight, std::int64_t columns,
                  float eps, Target out);

/// sums[c] += x[c], squares[c] += x[c]² in double, for each dense row.
void add_moments(Source x, std::int64_t rows, std::int64_t columns,
                 double* sums, double* squares);

/// out = activation(x·factor + offset) column by column, for each dense row.
void scale_shift_rows(Source x, std::int64_t rows, std::int64_t columns,
                      const float* factor, const float* offset,
                      Activation activation, Target out);

/// Highway's name of the instruction set whose loops run on this machine.
[[nodiscard]] const char* vector_isa();

/// x += gate · y.
void add_gated_row(const float* gate, Source y, std::int64_t count, float* x);
/// x += y.
void add_row(Source y, std::int64_t count, Target x);
/// out = x.
void convert_row(Source x, std::int64_t count, Target out);

}  // namespace troupe::kernels::cpu
