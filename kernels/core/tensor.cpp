#include "kernels/core/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "kernels/core/error.h"

namespace troupe {
namespace {

constexpr std::size_t kHostAlignment = 64;
// Up to here memory and its owner are one block: two, one of them aligned, cost
// five times as much.
constexpr std::size_t kMostOfOneBlock = 512;
// From here on memory comes in huge pages, where the system has them for those
// who ask. The system clears new memory four times as fast then.
constexpr std::size_t kLeastOfHugePages = std::size_t{1} << 22U;
constexpr std::size_t kHugePage = std::size_t{1} << 21U;
// More than any machine has, and far from overflow when rounded up.
constexpr std::size_t kMostHostBytes = std::size_t{1} << 56U;

std::size_t tensor_bytes(const Shape& shape, DType dtype) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.num_elements()),
                             size_of(dtype), &bytes)) {
    throw Error(Errc::shape_mismatch, "tensor",
                "more bytes than 64 bits can count: " + to_string(shape));
  }
  return bytes;
}

std::shared_ptr<std::byte> allocate_host(std::size_t bytes) {
  if (bytes > kMostHostBytes) {
    throw Error(Errc::out_of_memory, "tensor",
                "cannot allocate " + std::to_string(bytes) + " bytes");
  }
  // A multiple of the alignment, and never 0: views of empty tensors stay
  // valid pointers.
  const std::size_t rounded =
      (bytes + kHostAlignment) / kHostAlignment * kHostAlignment;
  if (rounded <= kMostOfOneBlock) {
    auto block =
        std::make_shared_for_overwrite<std::byte[]>(rounded + kHostAlignment);
    void* start = block.get();
    std::size_t space = rounded + kHostAlignment;
    auto* memory = static_cast<std::byte*>(
        std::align(kHostAlignment, rounded, start, space));
    return {std::move(block), memory};
  }
  const bool is_huge = rounded >= kLeastOfHugePages;
  const std::align_val_t alignment{is_huge ? kHugePage : kHostAlignment};
  auto* memory =
      static_cast<std::byte*>(::operator new(rounded, alignment, std::nothrow));
  if (memory == nullptr) {
    throw Error(Errc::out_of_memory, "tensor",
                "cannot allocate " + std::to_string(rounded) + " bytes",
                "use fewer samples at once, a smaller model or --dtype bf16");
  }
  if (is_huge) {  // but for the rest, which does not fill one
    (void)::madvise(memory, rounded / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
  return {memory,
          [alignment](std::byte* p) { ::operator delete(p, alignment); }};
}

}  // namespace

float16 float16::from_float(float value) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((u >> 16U) & 0x8000U);
  const std::uint32_t magnitude = u & 0x7fffffffU;
  const auto with_sign = [sign](std::uint32_t half) {
    return float16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7f800000U) {  // NaN stays a (quiet) NaN
    return with_sign(0x7e00U | ((magnitude >> 13U) & 0x3ffU));
  }
  if (magnitude >= 0x477ff000U) {  // 65520 and more round to infinity
    return with_sign(0x7c00U);
  }
  if (magnitude < 0x38800000U) {
    // Below 2⁻¹⁴ an element is a multiple of 2⁻²⁴: adding 0.5, whose last bit
    // that is, rounds there.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U);
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
  return with_sign((rounded - 0x38000000U) >> 13U);
}

float float16::to_float() const noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 0x1fU) {
    return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13U));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) |
                                (mantissa << 13U));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

Tensor::Tensor(Shape shape, DType dtype, Device device)
    : shape_(shape), dtype_(dtype), device_(device) {
  require(device.kind == DeviceKind::cpu, Errc::unsupported, "tensor",
          "no allocator for " + to_string(device) + " without a context");
  bytes_ = allocate_host(tensor_bytes(shape, dtype));
}

Tensor::Tensor(std::shared_ptr<std::byte> bytes, Shape shape, DType dtype,
               Device device)
    : bytes_(std::move(bytes)), shape_(shape), dtype_(dtype), device_(device) {}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor tensor(shape, dtype);
  if (!tensor.empty()) {
    std::memset(tensor.bytes_.get(), 0, tensor.num_bytes());
  }
  return tensor;
}

Tensor Tensor::from_bytes(std::span<const std::byte> bytes, const Shape& shape,
                          DType dtype) {
  Tensor tensor(shape, dtype);
  if (tensor.num_bytes() != bytes.size()) {
    throw Error(Errc::shape_mismatch, "tensor",
                "wrong number of values for " + to_string(shape) + ": got " +
                    std::to_string(bytes.size() / size_of(dtype)));
  }
  if (!bytes.empty()) {
    std::memcpy(tensor.bytes_.get(), bytes.data(), bytes.size());
  }
  return tensor;
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.num_elements() != shape_.num_elements()) {
    throw Error(Errc::shape_mismatch, "reshape",
                "different element counts: got " + to_string(shape) +
                    ", expected as many as " + to_string(shape_));
  }
  return {bytes_, shape, dtype_, device_};
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() == 0 || begin < 0 || end < begin || end > shape_[0]) {
    throw Error(Errc::shape_mismatch, "slice",
                "range out of bounds: got " + std::to_string(begin) + ":" +
                    std::to_string(end) + " of " + to_string(shape_));
  }
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::copy_n(shape_.extents().begin(), shape_.rank(), extents.begin());
  extents[0] = end - begin;
  const auto offset =
      static_cast<std::size_t>(begin * shape_.stride(1)) * size_of(dtype_);
  return {std::shared_ptr<std::byte>(bytes_, bytes_.get() + offset),
          Shape(std::span<const std::int64_t>(extents.data(), shape_.rank())),
          dtype_, device_};
}

Tensor Tensor::item(std::int64_t index) const {
  const Tensor one = slice(index, index + 1);
  return one.reshape(Shape(shape_.extents().subspan(1)));
}

Tensor Tensor::clone() const {
  if (!bytes_) {
    return *this;
  }
  check_on_host("clone");
  Tensor copy(shape_, dtype_, device_);
  if (!empty()) {
    std::memcpy(copy.bytes_.get(), bytes_.get(), num_bytes());
  }
  return copy;
}

void Tensor::check_on_host(std::string_view place) const {
  require(device_.kind == DeviceKind::cpu, Errc::internal, place,
          "host memory is needed: got a tensor on " + to_string(device_));
}

void Tensor::check_dtype(DType wanted) const {
  if (wanted != dtype_) {
    throw Error(Errc::internal, "tensor",
                "wrong element type: got " + std::string(to_string(dtype_)) +
                    ", expected " + std::string(to_string(wanted)));
  }
}

bool bytes_equal(const Tensor& a, const Tensor& b) {
  a.check_on_host("bytes_equal");
  b.check_on_host("bytes_equal");
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.empty() ||
          std::memcmp(a.bytes().data(), b.bytes().data(), a.num_bytes()) == 0);
}

}  // namespace troupe
