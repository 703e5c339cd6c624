#include <algorithm>
#include <vector>

#include "kernels/copy.h"
#include "tests/cuda/views.h"

namespace troupe::kernels {
namespace {

class RowsOnGpu : public CudaTest {};

struct RowsCase {
  std::int64_t rows;
  Shape row;
  DType dtype;
  std::int64_t shift;  ///< of every second row, in elements
};

Tensor whole_of(const std::vector<Tensor>& rows, const Shape& shape) {
  Tensor whole(shape, rows.empty() ? DType::f32 : rows.front().dtype());
  std::byte* to = whole.bytes().data();
  for (const Tensor& row : rows) {
    to = std::copy(row.bytes().begin(), row.bytes().end(), to);
  }
  return whole;
}

Shape whole_shape(const RowsCase& c) {
  std::vector<std::int64_t> extents{c.rows};
  extents.insert(extents.end(), c.row.extents().begin(), c.row.extents().end());
  return Shape(std::span<const std::int64_t>(extents));
}

const std::vector<RowsCase>& cases() {
  static const std::vector<RowsCase> all = {
      {1, {4, 8, 8}, DType::f32, 0},   {7, {4, 8, 8}, DType::f32, 0},
      {7, {4, 8, 8}, DType::f32, 1},   {64, {3, 5}, DType::f32, 0},
      {65, {3, 5}, DType::f32, 1},     {130, {4}, DType::bf16, 0},
      {5, {7}, DType::bf16, 1},        {3, {1}, DType::f32, 0},
      {2, {4, 64, 64}, DType::f32, 0}, {4, {0, 3}, DType::f32, 0},
      {5, {13}, DType::u8, 3}};
  return all;
}

Tensor bytes_of(const RowsCase& c, std::uint64_t seed) {
  if (c.dtype != DType::u8) {
    return random(c.row, c.dtype, seed);
  }
  Tensor host(c.row, DType::u8);
  for (std::int64_t i = 0; i < host.num_elements(); ++i) {
    host.data<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(seed + static_cast<std::uint64_t>(31 * i));
  }
  return host;
}

void check_gather(ExecContext& ctx, const RowsCase& c) {
  std::vector<Tensor> hosts;
  std::vector<Tensor> rows;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    hosts.push_back(bytes_of(c, static_cast<std::uint64_t>(r + 1)));
    rows.push_back(shifted_upload(ctx, hosts.back(), r % 2 == 1 ? c.shift : 0));
  }
  GuardedOutput out(ctx, whole_shape(c), c.dtype, 0);
  gather(ctx, rows, out.tensor);
  expect_same_bits(download(ctx, out.tensor), whole_of(hosts, whole_shape(c)));
  EXPECT_TRUE(out.intact(ctx));
}

void check_scatter(ExecContext& ctx, const RowsCase& c) {
  std::vector<Tensor> hosts;
  std::vector<GuardedOutput> outputs;
  std::vector<Tensor> rows;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    hosts.push_back(bytes_of(c, static_cast<std::uint64_t>(r + 1)));
    outputs.emplace_back(ctx, c.row, c.dtype, r % 2 == 1 ? c.shift : 0);
    rows.push_back(outputs.back().tensor);
  }
  const Tensor whole = upload(ctx, whole_of(hosts, whole_shape(c)));
  scatter(ctx, whole, rows);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    expect_same_bits(download(ctx, rows[r]), hosts[r]);
    EXPECT_TRUE(outputs[r].intact(ctx));
  }
}

TEST_F(RowsOnGpu, GatherCopiesEveryRow) {
  ExecContext ctx(1, kGpu);
  for (const RowsCase& c : cases()) {
    check_gather(ctx, c);
  }
}

TEST_F(RowsOnGpu, ScatterCopiesEveryRow) {
  ExecContext ctx(1, kGpu);
  for (const RowsCase& c : cases()) {
    check_scatter(ctx, c);
  }
}

TEST(Rows, TheHostDoesTheSame) {
  ExecContext ctx;
  for (const RowsCase& c : cases()) {
    check_gather(ctx, c);
    check_scatter(ctx, c);
  }
}

TEST(Rows, WrongRowsAreErrors) {
  ExecContext ctx;
  std::vector<Tensor> rows(2, random({4}, DType::f32, 1));
  Tensor three({3, 4}, DType::f32);
  EXPECT_THROW(gather(ctx, rows, three), Error);
  EXPECT_THROW(scatter(ctx, three, rows), Error);
  Tensor wide({2, 5}, DType::f32);
  EXPECT_THROW(gather(ctx, rows, wide), Error);
  Tensor half({2, 4}, DType::bf16);
  EXPECT_THROW(scatter(ctx, half, rows), Error);
  Tensor scalar(Shape{}, DType::f32);
  EXPECT_THROW(gather(ctx, rows, scalar), Error);
}

TEST_F(RowsOnGpu, RefusesRowsOfTheHost) {
  ExecContext ctx(1, kGpu);
  std::vector<Tensor> rows(2, random({4}, DType::f32, 1));
  Tensor out = poisoned(ctx, {2, 4}, DType::f32);
  EXPECT_THROW(gather(ctx, rows, out), Error);
  EXPECT_THROW(scatter(ctx, out, rows), Error);
}

}  // namespace
}  // namespace troupe::kernels
