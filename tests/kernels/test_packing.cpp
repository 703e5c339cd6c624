#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "kernels/cpu/packed_matrix.h"
#include "tests/kernels/reference.h"

// Weights are packed by our own code where that is quicker.
namespace troupe::kernels {
namespace {

/// What the library's reorder makes of rows [N, K].
std::vector<std::byte> reordered(const Tensor& rows) {
  using dnnl::memory;
  const std::int64_t n = rows.dim(0);
  const std::int64_t k = rows.dim(1);
  memory from({{k, n}, cpu::library_type(rows.dtype()), memory::dims{1, k}},
              cpu::engine(), const_cast<std::byte*>(rows.bytes().data()));
  const memory::desc packed = cpu::packed_weights(k, n, rows.dtype());
  std::vector<std::byte> bytes(packed.get_size());
  memory to(packed, cpu::engine(), bytes.data());
  dnnl::stream stream(cpu::engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return bytes;
}

TEST(Packing, WritesTheBytesOfTheLibrary) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    if (!supports(dtype)) {
      continue;
    }
    // Widths of whole tiles, and others, which are padded.
    for (const auto& [n, k] : {std::tuple{64, 32},
                               {192, 160},
                               {128, 1152},
                               {64, 33},
                               {64, 16},
                               {65, 64},
                               {1, 1},
                               {24, 72},
                               {192, 40}}) {
      Tensor rows({n, k}, dtype);
      for (std::byte& byte : rows.bytes()) {
        byte = static_cast<std::byte>(random());
      }
      const dnnl::memory packed = cpu::pack_panel(rows);
      const std::vector<std::byte> expected = reordered(rows);
      ASSERT_EQ(packed.get_desc().get_size(), expected.size());
      EXPECT_EQ(std::memcmp(packed.get_data_handle(), expected.data(),
                            expected.size()),
                0)
          << to_string(dtype) << " [" << n << ", " << k << "]";
    }
  }
}

}  // namespace
}  // namespace troupe::kernels
