#include "tests/cuda/emulator/blas.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>

#include "tests/cuda/emulator/blas_algorithms.h"
#include "tests/cuda/emulator/blas_objects.h"
#include "tests/cuda/emulator/blas_product.h"
#include "tests/cuda/emulator/libraries.h"
#include "tests/cuda/emulator/streams.h"

// The emulated cuBLASLt: how algorithms are offered, and how a product is
// queued.

namespace troupe::emulator {
namespace {

/// EMULATED_STEADY.
BlasBehaviour default_behaviour() {
  BlasBehaviour behaviour;
  if (std::getenv("EMULATED_STEADY") != nullptr) {
    behaviour.order = {BlasAlgorithm::steady};
  }
  return behaviour;
}

struct State {
  std::mutex mutex;
  BlasBehaviour behaviour = default_behaviour();
  BlasCounters counters;
};

State& state() {
  static auto* const one = new State();
  return *one;
}

cublasStatus_t get_heuristic(cublasLtHandle_t handle,
                             cublasLtMatmulDesc_t description,
                             cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                             cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                             cublasLtMatmulPreference_t preference, int wanted,
                             cublasLtMatmulHeuristicResult_t* results,
                             int* count) {
  const std::lock_guard lock(state().mutex);
  ++state().counters.heuristics;
  const BlasPreference* p = object(preference);
  if (p == nullptr || wanted < 1 || results == nullptr || count == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  *count = 0;
  Description made;
  const cublasStatus_t status =
      describe(handle, description, a, b, c, d,
               state().behaviour.refused_epilogues, made);
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const BlasBehaviour& behaviour = state().behaviour;
  const auto& order =
      made.product.names_epilogue || behaviour.order_without_epilogue.empty()
          ? behaviour.order
          : behaviour.order_without_epilogue;
  for (const BlasAlgorithm algorithm :
       order.empty() ? usual_order(made) : order) {
    const std::size_t bytes = workspace_bytes(algorithm, made);
    const std::uint32_t scheme = reduction_scheme(algorithm);
    if (!can_run(algorithm, made) || bytes > p->workspace_bytes ||
        (!state().behaviour.ignores_schemes &&
         (scheme & ~p->reduction_schemes) != 0) ||
        *count == wanted) {
      continue;
    }
    const Choice choice{.algorithm = algorithm,
                        .device = static_cast<std::uint8_t>(made.handle.device),
                        .input = made.a.type,
                        .output = made.d.type,
                        .alignment_a = p->alignment_a,
                        .alignment_b = p->alignment_b,
                        .alignment_c = p->alignment_c,
                        .alignment_d = p->alignment_d};
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    std::memcpy(&result.algo, &choice, sizeof(choice));
    result.workspaceSize = bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t algo_check(cublasLtHandle_t handle,
                          cublasLtMatmulDesc_t description,
                          cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                          const cublasLtMatmulAlgo_t* algorithm,
                          cublasLtMatmulHeuristicResult_t* result) {
  const std::lock_guard lock(state().mutex);
  ++state().counters.checks;
  Description made;
  cublasStatus_t status = describe(handle, description, a, b, c, d,
                                   state().behaviour.refused_epilogues, made);
  const auto choice = choice_of(algorithm);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = result == nullptr ? CUBLAS_STATUS_INVALID_VALUE
                               : check_choice(choice, made);
  }
  if (status == CUBLAS_STATUS_SUCCESS) {
    result->workspaceSize = workspace_bytes(choice->algorithm, made);
    result->state = status;
    result->wavesCount = 1;
  }
  return status;
}

cublasStatus_t get_config(const cublasLtMatmulAlgo_t* algorithm,
                          cublasLtMatmulAlgoConfigAttributes_t attribute,
                          void* value, std::size_t bytes,
                          std::size_t* written) {
  const auto choice = choice_of(algorithm);
  if (!choice || value == nullptr || bytes != sizeof(std::uint32_t)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::uint32_t answer = 0;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      answer = static_cast<std::uint32_t>(choice->algorithm);
      break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      answer = static_cast<std::uint32_t>(num_splits(choice->algorithm));
      break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      answer = reduction_scheme(choice->algorithm);
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(value, &answer, sizeof(answer));
  if (written != nullptr) {
    *written = sizeof(answer);
  }
  return CUBLAS_STATUS_SUCCESS;
}

BlasMatrix matrix(const BlasLayout& layout) {
  return {layout.type,
          static_cast<std::int64_t>(layout.rows),
          static_cast<std::int64_t>(layout.columns),
          layout.stride,
          layout.batch,
          layout.batch_stride};
}

/// What follows from the descriptors.
BlasProduct arithmetic(const Description& made) {
  BlasProduct product;
  product.a = matrix(made.a);
  product.b = matrix(made.b);
  product.c = matrix(made.c);
  product.d = matrix(made.d);
  product.transposes_a = made.product.transpose_a == CUBLAS_OP_T;
  product.transposes_b = made.product.transpose_b == CUBLAS_OP_T;
  product.rounds_to_tf32 = made.product.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  product.bias = made.has_bias()
                     ? static_cast<const std::byte*>(made.product.bias)
                     : nullptr;
  product.applies_gelu = (made.product.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  return product;
}

bool is_aligned(const void* pointer, std::uint32_t alignment) {
  return pointer != nullptr &&
         reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

void count_product(const Description& made, BlasAlgorithm algorithm) {
  BlasCounters& counters = state().counters;
  ++counters.products;
  counters.strided_products += made.d.batch > 1 ? 1 : 0;
  counters.fused_products +=
      made.product.epilogue != CUBLASLT_EPILOGUE_DEFAULT ? 1 : 0;
  counters.last_columns = made.d.columns;
  counters.last_batch = static_cast<std::uint64_t>(made.d.batch);
  counters.last_algorithm = algorithm;
}

cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                      const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b,
                      cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                      cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                      std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  Description made;
  cublasStatus_t status =
      describe(handle, description, a_layout, b_layout, c_layout, d_layout,
               state().behaviour.refused_epilogues, made);
  // Without an algorithm the real library asks its heuristic; nobody here
  // should.
  const auto choice = choice_of(algorithm);
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = check_choice(choice, made);
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  const std::size_t used = workspace_bytes(choice->algorithm, made);
  if (alpha == nullptr || beta == nullptr || used > bytes ||
      (used > 0 && !is_aligned(workspace, 16)) ||
      !is_aligned(a, choice->alignment_a) ||
      !is_aligned(b, choice->alignment_b) ||
      !is_aligned(c, choice->alignment_c) ||
      !is_aligned(d, choice->alignment_d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  BlasProduct product = arithmetic(made);
  product.a_data = static_cast<const std::byte*>(a);
  product.b_data = static_cast<const std::byte*>(b);
  product.c_data = static_cast<const std::byte*>(c);
  product.d_data = static_cast<std::byte*>(d);
  std::memcpy(&product.alpha, alpha, sizeof(float));
  std::memcpy(&product.beta, beta, sizeof(float));
  product.summation = summation(choice->algorithm, made);
  product.workspace = static_cast<std::byte*>(workspace);
  product.workspace_bytes = used;
  count_product(made, choice->algorithm);
  return enqueue(stream, "cublasLtMatmul", [product] { multiply(product); }) ==
                 cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

const char* status_string(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "another status";
  }
}

}  // namespace

void set_blas_behaviour(const BlasBehaviour& behaviour) {
  const std::lock_guard lock(state().mutex);
  state().behaviour = behaviour;
}

BlasCounters blas_counters() {
  const std::lock_guard lock(state().mutex);
  BlasCounters counters = state().counters;
  counters.live_objects = live_blas_objects();
  return counters;
}

kernels::cuda::BlasLt emulated_blas() {
  return {.create = blas_create,
          .destroy = blas_destroy,
          .status_string = status_string,
          .matmul = matmul,
          .matmul_desc_create = blas_matmul_desc_create,
          .matmul_desc_destroy = blas_matmul_desc_destroy,
          .matmul_desc_set_attribute = blas_matmul_desc_set_attribute,
          .matrix_layout_create = blas_matrix_layout_create,
          .matrix_layout_destroy = blas_matrix_layout_destroy,
          .matrix_layout_set_attribute = blas_matrix_layout_set_attribute,
          .preference_create = blas_preference_create,
          .preference_destroy = blas_preference_destroy,
          .preference_set_attribute = blas_preference_set_attribute,
          .algo_get_heuristic = get_heuristic,
          .algo_check = algo_check,
          .algo_config_get_attribute = get_config};
}

}  // namespace troupe::emulator
