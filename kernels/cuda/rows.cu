#include <algorithm>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/units.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Rows of one launch: their addresses travel in the kernel's parameters.
constexpr std::int64_t kMostRows = 64;

/// Copies of whole rows between memory of their own and one tensor; blocks
/// (·, r) copy row r by units of N bytes.
template <int N>
struct RowCopy {
  static constexpr int kThreads = 256;
  static constexpr int kUnits = 4;  // loads of a thread in flight together

  std::int64_t units;  ///< of a row

  template <typename Lane>
  TROUPE_DEVICE void run(Lane& lane, const std::uint8_t* from,
                         std::uint8_t* to) const {
    const std::int64_t first =
        lane.block() * (kThreads * kUnits) + lane.thread();
    Bytes<N> ahead[kUnits];
    TROUPE_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      if (first + i * kThreads < units) {
        ahead[i] = load_bytes<N>(from + (first + i * kThreads) * N);
      }
    }
    TROUPE_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      if (first + i * kThreads < units) {
        store_bytes<N>(ahead[i], to + (first + i * kThreads) * N);
      }
    }
  }
};

template <int N>
struct Gather {
  static constexpr const char* kName = "gather";
  static constexpr int kThreads = RowCopy<N>::kThreads;
  static constexpr bool kCooperates = false;

  RowCopy<N> copy;
  std::uint8_t* out;
  const std::uint8_t* rows[kMostRows];

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    copy.run(lane, rows[lane.block_y()], out + lane.block_y() * copy.units * N);
  }
};

template <int N>
struct Scatter {
  static constexpr const char* kName = "scatter";
  static constexpr int kThreads = RowCopy<N>::kThreads;
  static constexpr bool kCooperates = false;

  RowCopy<N> copy;
  const std::uint8_t* in;
  std::uint8_t* rows[kMostRows];

  template <typename Lane>
  TROUPE_DEVICE void operator()(Lane& lane) const {
    copy.run(lane, in + lane.block_y() * copy.units * N, rows[lane.block_y()]);
  }
};

/// Rows [begin, end) of a call, and their addresses with that of the whole.
template <typename Row>
std::uintptr_t steps_of(std::span<Row> rows, const Tensor& whole) {
  auto steps = reinterpret_cast<std::uintptr_t>(whole.bytes().data()) |
               static_cast<std::uintptr_t>(rows.front().num_bytes());
  for (const Tensor& row : rows) {
    steps |= reinterpret_cast<std::uintptr_t>(row.bytes().data());
  }
  return steps;
}

template <int N, template <int> typename Kernel>
void launch_rows(Backend& backend, const Kernel<N>& kernel,
                 std::int64_t num_rows) {
  launch(
      backend, kernel,
      {blocks_for(kernel.copy.units, RowCopy<N>::kThreads * RowCopy<N>::kUnits),
       num_rows});
}

std::uint8_t* bytes_of(Tensor& tensor) {
  return reinterpret_cast<std::uint8_t*>(tensor.bytes().data());
}
const std::uint8_t* bytes_of(const Tensor& tensor) {
  return reinterpret_cast<const std::uint8_t*>(tensor.bytes().data());
}

/// fn(kernel of the fitting unit, first row, number of rows) for every launch.
template <template <int> typename Kernel, typename Row, typename Whole>
void copy_rows(Backend& backend, std::span<Row> rows, Whole* whole,
               std::uintptr_t steps) {
  const auto row_bytes = static_cast<std::int64_t>(rows.front().num_bytes());
  with_unit_bytes(steps, [&](auto bytes) {
    constexpr int kBytes = decltype(bytes)::value;
    const auto total = static_cast<std::int64_t>(rows.size());
    for (std::int64_t begin = 0; begin < total; begin += kMostRows) {
      const std::int64_t count = std::min(kMostRows, total - begin);
      Kernel<kBytes> kernel{
          {row_bytes / kBytes}, whole + begin * row_bytes, {}};
      for (std::int64_t r = 0; r < count; ++r) {
        kernel.rows[r] = bytes_of(rows[static_cast<std::size_t>(begin + r)]);
      }
      launch_rows(backend, kernel, count);
    }
  });
}

}  // namespace

void gather(ExecContext& ctx, std::span<const Tensor> rows, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (!out.empty()) {
    copy_rows<Gather>(backend, rows, bytes_of(out), steps_of(rows, out));
  }
}

void scatter(ExecContext& ctx, const Tensor& in, std::span<Tensor> rows) {
  Backend& backend = Backend::of(ctx);
  if (!in.empty()) {
    copy_rows<Scatter>(backend, rows, bytes_of(in), steps_of(rows, in));
  }
}

}  // namespace troupe::kernels::cuda
