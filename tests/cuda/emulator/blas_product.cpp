#include "tests/cuda/emulator/blas_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/core/dtype.h"

namespace troupe::emulator {
namespace {

float read(const std::byte* data, cudaDataType type, std::int64_t index) {
  const std::byte* from =
      data + static_cast<std::size_t>(index) * size_of(type);
  if (type == CUDA_R_32F) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  return type == CUDA_R_16BF ? bfloat16{bits}.to_float()
                             : float16{bits}.to_float();
}

float rounded(float value, cudaDataType type) {
  switch (type) {
    case CUDA_R_16BF:
      return bfloat16::from_float(value).to_float();
    case CUDA_R_16F:
      return float16::from_float(value).to_float();
    default:
      return value;
  }
}

void write(std::byte* data, cudaDataType type, std::int64_t index,
           float value) {
  std::byte* to = data + static_cast<std::size_t>(index) * size_of(type);
  if (type == CUDA_R_32F) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const std::uint16_t bits = type == CUDA_R_16BF
                                 ? bfloat16::from_float(value).bits
                                 : float16::from_float(value).bits;
  std::memcpy(to, &bits, sizeof(bits));
}

/// To 10 bits of mantissa, ties away from zero, as tensor cores are fed.
float as_tf32(float value) {
  if (!std::isfinite(value)) {
    return value;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU);
}

/// op(matrix) of one batch, or its transpose, as dense rows of f32.
std::vector<float> dense(const BlasProduct& product, const BlasMatrix& matrix,
                         const std::byte* data, std::int64_t item,
                         bool by_columns) {
  std::vector<float> values(
      static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::int64_t column = 0; column < matrix.columns; ++column) {
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      const float value =
          read(data, matrix.type,
               item * matrix.batch_stride + column * matrix.stride + row);
      const std::int64_t at = by_columns ? column * matrix.rows + row
                                         : row * matrix.columns + column;
      values[static_cast<std::size_t>(at)] =
          product.rounds_to_tf32 ? as_tf32(value) : value;
    }
  }
  return values;
}

/// The sums of one column of D: left [k][m], right [k].
class ColumnSums {
 public:
  ColumnSums(const BlasProduct& product, std::int64_t m, std::int64_t k)
      : summation_(product.summation),
        type_(product.d.type),
        m_(static_cast<std::size_t>(m)),
        k_(k),
        total_(m_),
        part_(m_),
        block_(m_) {}

  const std::vector<float>& run(const float* left, const float* right) {
    const std::int64_t width = (k_ + summation_.splits - 1) / summation_.splits;
    for (std::int64_t split = 0; split < summation_.splits; ++split) {
      sum_part(left, right, std::min(k_, split * width),
               std::min(k_, (split + 1) * width));
      for (std::size_t i = 0; i < m_; ++i) {
        const float part =
            summation_.rounds_parts ? rounded(part_[i], type_) : part_[i];
        total_[i] = split == 0 ? part : total_[i] + part;
      }
    }
    return total_;
  }

 private:
  void sum_part(const float* left, const float* right, std::int64_t begin,
                std::int64_t end) {
    std::fill(part_.begin(), part_.end(), 0.0F);
    for (std::int64_t first = begin; first < end; first += summation_.block) {
      std::fill(block_.begin(), block_.end(), 0.0F);
      const std::int64_t last = std::min(end, first + summation_.block);
      for (std::int64_t k = first; k < last; ++k) {
        const float factor = right[k];
        const float* row = left + static_cast<std::size_t>(k) * m_;
        for (std::size_t i = 0; i < m_; ++i) {
          block_[i] += row[i] * factor;
        }
      }
      for (std::size_t i = 0; i < m_; ++i) {
        part_[i] += block_[i];
      }
    }
  }

  BlasSummation summation_;
  cudaDataType type_;
  std::size_t m_;
  std::int64_t k_;
  std::vector<float> total_;
  std::vector<float> part_;
  std::vector<float> block_;
};

float gelu(float x) {
  return 0.5F * x *
         (1.0F + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
}

void multiply_item(const BlasProduct& product, std::int64_t item) {
  const BlasMatrix& d = product.d;
  const std::int64_t m = d.rows;
  const std::int64_t k =
      product.transposes_a ? product.a.rows : product.a.columns;
  // op(A) as [k][m], op(B) as [n][k].
  const std::vector<float> left =
      dense(product, product.a, product.a_data, item, !product.transposes_a);
  const std::vector<float> right =
      dense(product, product.b, product.b_data, item, !product.transposes_b);
  ColumnSums sums(product, m, k);
  for (std::int64_t column = 0; column < d.columns; ++column) {
    const std::vector<float>& column_sums =
        sums.run(left.data(), right.data() + column * k);
    for (std::int64_t row = 0; row < m; ++row) {
      float value = product.alpha * column_sums[static_cast<std::size_t>(row)];
      if (product.beta != 0) {
        value += product.beta * read(product.c_data, product.c.type,
                                     item * product.c.batch_stride +
                                         column * product.c.stride + row);
      }
      if (product.bias != nullptr) {
        value += read(product.bias, d.type, row);
      }
      write(product.d_data, d.type,
            item * d.batch_stride + column * d.stride + row,
            product.applies_gelu ? gelu(value) : value);
    }
  }
}

}  // namespace

std::size_t size_of(cudaDataType type) { return type == CUDA_R_32F ? 4 : 2; }

void multiply(const BlasProduct& product) {
  if (product.workspace_bytes > 0) {
    std::memset(product.workspace, 0xff, product.workspace_bytes);
  }
  for (std::int64_t item = 0; item < product.d.batch; ++item) {
    multiply_item(product, item);
  }
}

}  // namespace troupe::emulator
