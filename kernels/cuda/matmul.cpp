#include "kernels/cuda/matmul.cuh"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/cuda/product_check.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kMatmulPlace = "matmul";
// What the library's guide recommends for Hopper; smaller GPUs can spare it.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20U;
constexpr std::size_t kBestAlignment = 256;
constexpr int kCandidates = 16;
// A product of few rows would be given a matrix-vector kernel that can serve
// nothing else: the choice is made as if an item had at least a tile of rows.
constexpr std::int64_t kFewestRows = 16;
// "Usually only values that can be expressed as int32_t are supported."
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

std::string to_string(const Problem& problem) {
  using std::to_string;
  return "[" + to_string(problem.rows) + ", " + to_string(problem.k) + "] · [" +
         to_string(problem.n) + ", " + to_string(problem.k) + "]ᵀ in " +
         std::string(troupe::to_string(problem.compute));
}

bool has_bias(cublasLtEpilogue_t epilogue) {
  return (static_cast<unsigned>(epilogue) &
          static_cast<unsigned>(CUBLASLT_EPILOGUE_BIAS)) != 0;
}

}  // namespace

std::size_t row_alignment(std::int64_t width, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(dtype);
  return std::min(kBestAlignment, bytes & (~bytes + 1));
}

Products::Products(Backend& backend)
    : backend_(backend),
      handle_(make_blas<cublasLtHandle_t>(blas(), kMatmulPlace, blas().create,
                                          blas().destroy)),
      workspace_(backend.allocate(kWorkspaceBytes)) {}

BlasHandle<cublasLtMatmulDesc_t> Products::describe(
    const Problem& problem) const {
  const bool rounds_operands =
      problem.compute == DType::f32 && backend_.options().tf32;
  auto description = make_blas<cublasLtMatmulDesc_t>(
      blas(), kMatmulPlace, blas().matmul_desc_create,
      blas().matmul_desc_destroy,
      rounds_operands ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
      CUDA_R_32F);
  set_blas(blas(), kMatmulPlace, blas().matmul_desc_set_attribute,
           description.get(), CUBLASLT_MATMUL_DESC_TRANSA,
           static_cast<std::int32_t>(CUBLAS_OP_T));
  set_blas(blas(), kMatmulPlace, blas().matmul_desc_set_attribute,
           description.get(), CUBLASLT_MATMUL_DESC_TRANSB,
           static_cast<std::int32_t>(CUBLAS_OP_N));
  set_blas(blas(), kMatmulPlace, blas().matmul_desc_set_attribute,
           description.get(), CUBLASLT_MATMUL_DESC_EPILOGUE,
           static_cast<std::uint32_t>(problem.epilogue));
  if (has_bias(problem.epilogue)) {
    // The choice of algorithms looks at the address for its alignment; every
    // bias has that of the workspace.
    set_blas(blas(), kMatmulPlace, blas().matmul_desc_set_attribute,
             description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
             static_cast<const void*>(workspace_.get()));
  }
  return description;
}

Products::Layout Products::layout(DType dtype, std::int64_t rows,
                                  std::int64_t columns) const {
  return make_blas<cublasLtMatrixLayout_t>(
      blas(), kMatmulPlace, blas().matrix_layout_create,
      blas().matrix_layout_destroy, blas_type(dtype),
      static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
      rows);
}

// The library's matrices lie column by column: a row-major [rows, k] is its
// [k, rows], so it computes outᵀ = weight · xᵀ with the weight transposed.

Products::Arrangement Products::merged(const Problem& problem,
                                       const ProductBatch& batch) const {
  const std::int64_t rows = batch.rows * batch.items;
  return {layout(problem.compute, problem.k, problem.n),
          layout(problem.compute, problem.k, rows),
          layout(problem.out, problem.n, rows), 1};
}

Products::Arrangement Products::strided(const Problem& problem,
                                        const ProductBatch& batch) const {
  Arrangement arrangement = merged(problem, {1, batch.rows});
  const auto repeat = [&](const Layout& layout, std::int64_t stride) {
    set_blas(blas(), kMatmulPlace, blas().matrix_layout_set_attribute,
             layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
             static_cast<std::int32_t>(batch.items));
    set_blas(blas(), kMatmulPlace, blas().matrix_layout_set_attribute,
             layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  };
  repeat(arrangement.weight, std::int64_t{0});
  repeat(arrangement.x, batch.rows * problem.k);
  repeat(arrangement.out, batch.rows * problem.n);
  return arrangement;
}

Products::Arrangement Products::one_by_one(const Problem& problem,
                                           const ProductBatch& batch) const {
  Arrangement arrangement = merged(problem, {1, batch.rows});
  arrangement.calls = batch.items;
  return arrangement;
}

bool Products::accepts(const Plan& plan, const Arrangement& arrangement,
                       const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  return blas().algo_check(handle_.get(), plan.description.get(),
                           arrangement.weight.get(), arrangement.x.get(),
                           arrangement.out.get(), arrangement.out.get(),
                           &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= kWorkspaceBytes;
}

std::optional<cublasLtMatmulAlgo_t> Products::choose(const Problem& problem,
                                                     const Plan& plan) const {
  const bool invariant = backend_.options().batch_invariant;
  auto preference = make_blas<cublasLtMatmulPreference_t>(
      blas(), kMatmulPlace, blas().preference_create,
      blas().preference_destroy);
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           std::uint64_t{kWorkspaceBytes});
  // Where sums may be split, their parts are still added as f32.
  const auto schemes = static_cast<std::uint32_t>(
      invariant ? CUBLASLT_REDUCTION_SCHEME_NONE
                : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           schemes);
  const auto inputs =
      static_cast<std::uint32_t>(row_alignment(problem.k, problem.compute));
  const auto outputs =
      static_cast<std::uint32_t>(row_alignment(problem.n, problem.out));
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
           inputs);
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
           inputs);
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
           outputs);
  set_blas(blas(), kMatmulPlace, blas().preference_set_attribute,
           preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
           outputs);

  Problem asked = problem;
  if (invariant) {
    asked.rows = std::max(asked.rows, kFewestRows);
  }
  const Arrangement all = merged(asked, {1, asked.rows});
  const Arrangement item = merged(problem, {1, problem.rows});
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  const cublasStatus_t status = blas().algo_get_heuristic(
      handle_.get(), plan.description.get(), all.weight.get(), all.x.get(),
      all.out.get(), all.out.get(), preference.get(), kCandidates, found.data(),
      &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      status == CUBLAS_STATUS_INVALID_VALUE) {
    return std::nullopt;
  }
  check(blas(), status, kMatmulPlace);
  for (int i = 0; i < count; ++i) {
    const auto& [algorithm, bytes, state, waves, reserved] =
        found[static_cast<std::size_t>(i)];
    if (state == CUBLAS_STATUS_SUCCESS &&
        (!invariant || sums_in_one_sequence(blas(), algorithm, kMatmulPlace)) &&
        accepts(plan, item, algorithm)) {
      return algorithm;
    }
  }
  return std::nullopt;
}

Products::Plan& Products::plan(const Problem& problem) {
  const auto known = plans_.find(problem);
  if (known != plans_.end()) {
    return known->second;
  }
  Plan plan{describe(problem), std::nullopt, {}};
  plan.algorithm = choose(problem, plan);
  if (!plan.algorithm) {
    log_message(LogLevel::info, "cuBLASLt has no algorithm for " +
                                    std::to_string(problem.rows) + " x " +
                                    std::to_string(problem.k) + " by " +
                                    std::to_string(problem.n) +
                                    ": a slow product of our own is used");
  }
  return plans_.emplace(problem, std::move(plan)).first->second;
}

bool Products::supports(const Problem& problem) {
  return plan(problem).algorithm.has_value();
}

bool Products::bits_agree(const Problem& problem, Plan& plan,
                          const Arrangement& arrangement,
                          const ProductBatch& batch) {
  try {
    ProductCheck numbers(backend_, problem, batch);
    queue(problem, plan, arrangement, batch.rows, numbers.operands(0));
    queue(problem, plan, one_by_one(problem, batch), batch.rows,
          numbers.operands(1));
    return numbers.results_agree();
  } catch (const Error& error) {
    // Item by item needs no more memory than the product itself.
    if (error.code() == Errc::device_full) {
      return false;
    }
    throw;
  }
}

/// Rows at the start of an item and at its end, where a library's tiles differ.
bool Products::shard_agrees(const Problem& problem, Plan& plan,
                            std::int64_t rows) {
  const Arrangement shard = one_by_one(problem, {1, rows});
  if (!accepts(plan, shard, *plan.algorithm)) {
    return false;
  }
  const ProductBatch whole{1, problem.rows};
  ProductCheck numbers(backend_, problem, whole);
  const Arrangement all = one_by_one(problem, whole);
  for (const std::int64_t first : {std::int64_t{0}, problem.rows - rows}) {
    // What the shard does not compute is the whole's.
    queue(problem, plan, all, problem.rows, numbers.operands(0));
    queue(problem, plan, all, problem.rows, numbers.operands(1));
    queue(problem, plan, shard, rows, numbers.operands_from(1, first));
    if (!numbers.results_agree()) {
      return false;
    }
  }
  return true;
}

void Products::check_shard(const Problem& problem, Plan& plan,
                           std::int64_t rows) {
  auto known = plan.shards.find(rows);
  if (known == plan.shards.end()) {
    if (backend_.is_recording()) {
      throw Error(Errc::unsupported, kMatmulPlace,
                  "a shard of " + std::to_string(rows) + " rows of " +
                      to_string(problem) + " was recorded before it was run");
    }
    known = plan.shards.emplace(rows, shard_agrees(problem, plan, rows)).first;
  }
  if (!known->second) {
    throw Error(Errc::unsupported, kMatmulPlace,
                "cuBLASLt computes other bits for " + std::to_string(rows) +
                    " rows alone than for all of " + to_string(problem),
                "give each GPU whole items");
  }
}

Products::Arrangement Products::arrange(const Problem& problem, Plan& plan,
                                        const ProductBatch& batch) {
  if (batch.rows != problem.rows) {
    check_shard(problem, plan, batch.rows);
  }
  if (batch.items > 1 && !backend_.is_recording() &&
      batch.rows <= kMostRows / batch.items) {
    for (const auto& way : {&Products::merged, &Products::strided}) {
      Arrangement arrangement = (this->*way)(problem, batch);
      if (accepts(plan, arrangement, *plan.algorithm) &&
          bits_agree(problem, plan, arrangement, batch)) {
        return arrangement;
      }
    }
  }
  return one_by_one(problem, batch);
}

void Products::run(const Problem& problem, const ProductBatch& batch,
                   const ProductOperands& operands) {
  Plan& plan = this->plan(problem);
  if (!plan.algorithm) {
    throw Error(Errc::unsupported, kMatmulPlace,
                "cuBLASLt has no algorithm for " + to_string(problem));
  }
  auto known = plan.arrangements.find(batch);
  if (known == plan.arrangements.end()) {
    Arrangement arrangement = arrange(problem, plan, batch);
    if (backend_.is_recording()) {
      // Not checked yet: this way gives the same bits without a check.
      return queue(problem, plan, arrangement, batch.rows, operands);
    }
    known = plan.arrangements.emplace(batch, std::move(arrangement)).first;
  }
  queue(problem, plan, known->second, batch.rows, operands);
}

void Products::queue(const Problem& problem, Plan& plan,
                     const Arrangement& arrangement, std::int64_t rows,
                     const ProductOperands& operands) {
  if (has_bias(problem.epilogue)) {
    set_blas(blas(), kMatmulPlace, blas().matmul_desc_set_attribute,
             plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
             operands.bias);
  }
  const float alpha = 1.0F;
  const float beta = 0.0F;
  const auto x_bytes =
      static_cast<std::size_t>(rows * problem.k) * size_of(problem.compute);
  const auto out_bytes =
      static_cast<std::size_t>(rows * problem.n) * size_of(problem.out);
  const auto* x = static_cast<const std::byte*>(operands.x);
  auto* out = static_cast<std::byte*>(operands.out);
  for (std::int64_t call = 0; call < arrangement.calls; ++call) {
    check(blas(),
          blas().matmul(handle_.get(), plan.description.get(), &alpha,
                        operands.weight, arrangement.weight.get(), x,
                        arrangement.x.get(), &beta, out, arrangement.out.get(),
                        out, arrangement.out.get(), &*plan.algorithm,
                        workspace_.get(), kWorkspaceBytes, backend_.stream()),
          kMatmulPlace);
    x += x_bytes;
    out += out_bytes;
  }
}

}  // namespace troupe::kernels::cuda
