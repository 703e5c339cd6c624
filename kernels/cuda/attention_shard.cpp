#include "kernels/cuda/attention_shard.cuh"

#include <cmath>
#include <cstring>

namespace troupe::kernels::cuda {
namespace {

/// The first row and head of a shard in its whole.
struct Corner {
  std::int64_t row;
  std::int64_t head;
};

void store(float value, Tensor& tensor, std::int64_t index) {
  if (tensor.dtype() == DType::bf16) {
    tensor.data<bfloat16>()[index] = bfloat16::from_float(value);
  } else {
    tensor.data<float16>()[index] = float16::from_float(value);
  }
}

/// Rows of some heads on the device, `row` elements apart: each number follows
/// from its row, head and column in the whole.
Tensor operand(ExecContext& ctx, const AttentionProblem& problem,
               std::int64_t rows, std::int64_t row, const Corner& corner,
               std::int64_t heads_of_whole, std::int64_t seed) {
  Tensor host = Tensor::zeros({rows, row}, problem.dtype);
  const std::int64_t width = problem.num_heads * problem.head_dim;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t first =
        ((corner.row + r) * heads_of_whole + corner.head) * problem.head_dim;
    for (std::int64_t column = 0; column < width; ++column) {
      store(check_number(first + column, seed), host, r * row + column);
    }
  }
  Tensor there = ctx.empty(host.shape(), host.dtype());
  Backend::of(ctx).copy(host, there);
  return there;
}

/// out [queries, out_row] on the host.
Tensor attended(ExecContext& ctx, const AttentionProblem& problem,
                DnnPlans& plans, const Corner& corner,
                std::int64_t heads_of_whole) {
  const auto take = [&](std::int64_t rows, std::int64_t row,
                        const Corner& first, std::int64_t seed) {
    return operand(ctx, problem, rows, row, first, heads_of_whole, seed);
  };
  const Corner first_key{0, corner.head};
  Tensor q = take(problem.queries, problem.q_row, corner, 1);
  Tensor k = take(problem.keys, problem.k_row, first_key, 2);
  Tensor v = take(problem.keys, problem.v_row, first_key, 3);
  Tensor out = ctx.empty({problem.queries, problem.out_row}, problem.dtype);
  float scale = 1.0F / std::sqrt(static_cast<float>(problem.head_dim));
  if (!plans.run(
          ctx, 1,
          attention_operands(
              problem, {q.bytes().data(), k.bytes().data(), v.bytes().data(),
                        &scale, out.bytes().data()}))) {
    return {};
  }
  Tensor host(out.shape(), out.dtype());
  Backend::of(ctx).copy(out, host);  // waits
  return host;
}

/// Whether `part` is what `all` has from the corner on, for so many heads.
bool is_part(const Tensor& part, const Tensor& all, const Corner& corner,
             std::int64_t num_heads, std::int64_t head_dim) {
  const std::size_t bytes =
      static_cast<std::size_t>(num_heads * head_dim) * size_of(all.dtype());
  for (std::int64_t row = 0; row < part.dim(0); ++row) {
    const Tensor there = all.slice(corner.row + row, corner.row + row + 1);
    const std::byte* from =
        there.bytes().data() +
        static_cast<std::size_t>(corner.head * head_dim) * size_of(all.dtype());
    if (std::memcmp(part.slice(row, row + 1).bytes().data(), from, bytes) !=
        0) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::array<DnnOperand, 5> attention_operands(const AttentionProblem& problem,
                                             const AttentionAddresses& at) {
  const auto input = [&](DnnId id, std::int64_t elements, std::byte* address) {
    return DnnOperand{.id = id,
                      .role = DnnOperand::Role::input,
                      .dtype = problem.dtype,
                      .elements = elements,
                      .address = address};
  };
  DnnOperand out = input(kOutput, problem.queries * problem.out_row, at.out);
  out.role = DnnOperand::Role::output;
  return {input(kFirstInput, problem.queries * problem.q_row, at.q),
          input(kSecondInput, problem.keys * problem.k_row, at.k),
          input(kThirdInput, problem.keys * problem.v_row, at.v),
          DnnOperand{.id = kScale,
                     .role = DnnOperand::Role::number,
                     .elements = 1,
                     .address = reinterpret_cast<std::byte*>(at.scale)},
          out};
}

bool shard_agrees(ExecContext& ctx, const AttentionProblem& whole,
                  DnnPlans& whole_plans, const AttentionProblem& shard,
                  DnnPlans& shard_plans) {
  const Tensor all = attended(ctx, whole, whole_plans, {0, 0}, whole.num_heads);
  for (const Corner& corner :
       {Corner{0, 0}, Corner{whole.queries - shard.queries,
                             whole.num_heads - shard.num_heads}}) {
    const Tensor part =
        attended(ctx, shard, shard_plans, corner, whole.num_heads);
    if (all.empty() || part.empty() ||
        !is_part(part, all, corner, shard.num_heads, whole.head_dim)) {
      return false;
    }
  }
  return true;
}

}  // namespace troupe::kernels::cuda
