#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/product_check.cuh"

namespace troupe::kernels::cuda {
namespace {

/// The finalizer of MurmurHash3 (Austin Appleby, public domain).
TROUPE_DEVICE std::uint32_t mixed(std::uint32_t bits) {
  bits ^= bits >> 16U;
  bits *= 0x85ebca6bU;
  bits ^= bits >> 13U;
  bits *= 0xc2b2ae35U;
  return bits ^ (bits >> 16U);
}

/// Uniform in [−1, 1), a function of its arguments.
TROUPE_DEVICE float uniform(std::int64_t row, std::int64_t column,
                            std::uint32_t seed) {
  const std::uint32_t bits =
      mixed(mixed(mixed(seed) + static_cast<std::uint32_t>(row)) +
            static_cast<std::uint32_t>(column));
  return multiply(static_cast<float>(static_cast<std::int32_t>(bits >> 8U) -
                                     (std::int32_t{1} << 23U)),
                  0x1p-23F);
}

/// values [rows, columns], as fill_for_sums says.
template <typename T>
struct FillOperand {
  static constexpr const char* kName = "fill operand";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  T* values;
  std::int64_t rows;
  std::int64_t columns;
  float large;
  bool cancels;  ///< the second half has the other sign
  std::uint32_t seed;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at = lane.block() * kThreads + lane.thread();
    if (at >= rows * columns) {
      return;
    }
    const std::int64_t row = at / columns;
    const std::int64_t column = at % columns;
    const std::int64_t other = columns - 1 - column;
    const bool is_second = column > other;
    const std::int64_t pair = is_second ? other : column;
    float value = uniform(row, column, seed);
    if (pair % 4 == 0 && column != other) {
      const float sign = cancels && is_second ? -1.0F : 1.0F;
      value = multiply(multiply(sign, large), uniform(row, pair, seed));
    }
    values[at] = from_float<T>(value);
  }
};

/// Sets *differs where the bits of a and b do.
template <typename Word>
struct FindDifference {
  static constexpr const char* kName = "find difference";
  static constexpr int kThreads = 256;
  static constexpr bool kCooperates = false;

  const Word* a;
  const Word* b;
  std::int64_t count;
  std::uint32_t* differs;

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    const std::int64_t at = lane.block() * kThreads + lane.thread();
    if (at < count && a[at] != b[at]) {
      *differs = 1;  // every writer writes the same
    }
  }
};

template <typename Word>
void find_difference(Backend& backend, const Tensor& a, const Tensor& b,
                     Tensor& differs) {
  using Kernel = FindDifference<Word>;
  const auto count = static_cast<std::int64_t>(a.num_bytes() / sizeof(Word));
  launch(backend,
         Kernel{reinterpret_cast<const Word*>(a.bytes().data()),
                reinterpret_cast<const Word*>(b.bytes().data()), count,
                reinterpret_cast<std::uint32_t*>(differs.bytes().data())},
         {blocks_for(count, Kernel::kThreads)});
}

Tensor take_memory(Backend& backend, const Shape& shape, DType dtype) {
  const auto bytes =
      static_cast<std::size_t>(shape.num_elements()) * size_of(dtype);
  return {backend.allocate(bytes), shape, dtype,
          Device{DeviceKind::cuda, backend.device()}};
}

}  // namespace

void fill_for_sums(Backend& backend, Tensor& values, std::int64_t columns,
                   float large, bool cancels, std::uint32_t seed) {
  with_element(values.dtype(), [&](auto element) {
    using Kernel = FillOperand<decltype(element)>;
    const std::int64_t count = values.num_elements();
    launch(backend,
           Kernel{values.data<decltype(element)>(), count / columns, columns,
                  large, cancels, seed},
           {blocks_for(count, Kernel::kThreads)});
  });
}

bool same_bytes(Backend& backend, const Tensor& a, const Tensor& b) {
  const Tensor clear = Tensor::zeros({std::int64_t{4}}, DType::u8);
  Tensor differs = take_memory(backend, clear.shape(), DType::u8);
  backend.copy(clear, differs);
  if (size_of(a.dtype()) == sizeof(std::uint32_t)) {
    find_difference<std::uint32_t>(backend, a, b, differs);
  } else {
    find_difference<std::uint16_t>(backend, a, b, differs);
  }
  Tensor flag(clear.shape(), DType::u8);
  backend.copy(differs, flag);  // waits
  return bytes_equal(flag, clear);
}

ProductCheck::ProductCheck(Backend& backend, const Problem& problem,
                           const ProductBatch& batch)
    : backend_(backend),
      weight_(take({problem.n, problem.k}, problem.compute)),
      bias_(take({problem.n}, problem.out)),
      x_(take({batch.rows * batch.items, problem.k}, problem.compute)),
      results_{take({batch.rows * batch.items, problem.n}, problem.out),
               take({batch.rows * batch.items, problem.n}, problem.out)} {
  fill_for_sums(backend, weight_, problem.k, 1.0F, false, 1);
  fill_for_sums(backend, bias_, problem.n, 1.0F, false, 2);
  fill_for_sums(backend, x_, problem.k, kLargeTerm, true, 3);
}

Tensor ProductCheck::take(const Shape& shape, DType dtype) {
  return take_memory(backend_, shape, dtype);
}

ProductOperands ProductCheck::operands(int result) {
  return {weight_.bytes().data(), bias_.bytes().data(), x_.bytes().data(),
          results_[result].bytes().data()};
}

ProductOperands ProductCheck::operands_from(int result, std::int64_t first) {
  ProductOperands from = operands(result);
  from.x = x_.slice(first, x_.dim(0)).bytes().data();
  from.out = results_[result].slice(first, x_.dim(0)).bytes().data();
  return from;
}

bool ProductCheck::results_agree() {
  return same_bytes(backend_, results_[0], results_[1]);
}

}  // namespace troupe::kernels::cuda
