#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "kernels/cuda/aligned.cuh"
#include "kernels/cuda/bias_activation.cuh"
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/plain_product.cuh"
#include "kernels/cuda/upload.cuh"

namespace troupe::kernels::cuda {
namespace {

/// In free mode the whole batch is one problem.
Problem problem_of(const Backend& backend, const Tensor& x,
                   const LinearWeights& weights, DType out,
                   cublasLtEpilogue_t epilogue, std::int64_t whole_rows) {
  const std::int64_t rows =
      backend.options().batch_invariant ? whole_rows : x.dim(0) * x.dim(1);
  return {.rows = rows,
          .n = weights.weight.dim(0),
          .k = weights.weight.dim(1),
          .compute = weights.weight.dtype(),
          .out = out,
          .epilogue = epilogue};
}

/// Queues the product if the library can do it with this epilogue.
bool try_product(ExecContext& ctx, const Tensor& x,
                 const LinearWeights& weights, cublasLtEpilogue_t epilogue,
                 std::int64_t whole_rows, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  auto& products = backend.state<Products>();
  const Problem problem =
      problem_of(backend, x, weights, out.dtype(), epilogue, whole_rows);
  if (!products.supports(problem)) {
    return false;
  }
  const Workspace::Scope scope(ctx.workspace());
  const Tensor x_here =
      aligned_input(ctx, x, row_alignment(problem.k, problem.compute));
  AlignedOutput output(ctx, out, row_alignment(problem.n, problem.out));
  const Tensor& bias =
      out.dtype() == DType::f32 ? weights.bias : weights.narrow_bias;
  const ProductBatch batch = backend.options().batch_invariant
                                 ? ProductBatch{x.dim(0), x.dim(1)}
                                 : ProductBatch{1, problem.rows};
  products.run(problem, batch,
               {weights.weight.bytes().data(), bias.bytes().data(),
                x_here.bytes().data(), output.tensor().bytes().data()});
  output.finish();
  return true;
}

/// out = x · weightᵀ, f32, by the library or by a kernel of ours.
void plain_product(ExecContext& ctx, const Tensor& x,
                   const LinearWeights& weights, std::int64_t whole_rows,
                   Tensor& out) {
  if (!try_product(ctx, x, weights, CUBLASLT_EPILOGUE_DEFAULT, whole_rows,
                   out)) {
    multiply_plainly(Backend::of(ctx), x, weights.weight, out);
  }
}

/// The epilogue that does the whole of `activation` for this output, if any.
/// The library's GELU is the tanh form, and it may use an approximate tanh:
/// what is stored in f32 keeps our own.
std::optional<cublasLtEpilogue_t> whole_epilogue(bool has_bias,
                                                 Activation activation,
                                                 DType out) {
  switch (activation) {
    case Activation::none:
      return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::gelu_tanh:
      if (out == DType::f32) {
        return std::nullopt;
      }
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::silu:
    case Activation::gelu_erf:
    case Activation::relu:
    case Activation::mish:
    case Activation::gelu_sigmoid:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool can_multiply(ExecContext& ctx, DType compute) {
  (void)Backend::of(ctx);
  // Every GPU that this build has kernels for (Ampere and later) does all
  // three.
  return compute == DType::f32 || compute == DType::bf16 ||
         compute == DType::f16;
}

LinearWeights pack_linear(ExecContext& ctx, const Tensor& weight,
                          const Tensor& bias, DType compute) {
  (void)Backend::of(ctx);
  LinearWeights weights;
  weights.weight = upload(ctx, weight, compute);
  if (!bias.empty()) {
    weights.bias = upload(ctx, bias, DType::f32);
    weights.narrow_bias =
        compute == DType::f32 ? weights.bias : upload(ctx, bias, compute);
  }
  return weights;
}

void linear(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
            Activation activation, std::int64_t whole_rows, Tensor& out) {
  Backend& backend = Backend::of(ctx);
  if (out.empty()) {
    return;
  }
  const auto whole =
      whole_epilogue(!weights.bias.empty(), activation, out.dtype());
  if (whole && try_product(ctx, x, weights, *whole, whole_rows, out)) {
    return;
  }
  // Rounded once: the product stays in f32 until the activation is done.
  const Workspace::Scope scope(ctx.workspace());
  Tensor product = out.dtype() == DType::f32
                       ? out
                       : ctx.workspace().take(out.shape(), DType::f32);
  plain_product(ctx, x, weights, whole_rows, product);
  activate_product(backend, product, weights.bias, activation, out);
}

// The product is written and read once more in f32. In the compute type that
// would be 12 bytes per element of the residual instead of 16, some 2 % of a
// block of width 3072 with 4608 tokens; but it would lose 16 bits in front of
// an f32 residual, and the equality with `linear` and `add` or `add_gated`.
void linear_add(ExecContext& ctx, const Tensor& x, const LinearWeights& weights,
                const Tensor& modulation, std::int64_t gate_column,
                std::int64_t whole_rows, Tensor& residual) {
  Backend& backend = Backend::of(ctx);
  if (residual.empty()) {
    return;
  }
  const Workspace::Scope scope(ctx.workspace());
  Tensor product = ctx.workspace().take(residual.shape(), DType::f32);
  const bool is_whole =
      !weights.bias.empty() &&
      try_product(ctx, x, weights, CUBLASLT_EPILOGUE_BIAS, whole_rows, product);
  if (!is_whole) {
    plain_product(ctx, x, weights, whole_rows, product);
  }
  add_product(backend, product, is_whole ? Tensor() : weights.bias, modulation,
              gate_column, residual);
}

}  // namespace troupe::kernels::cuda
