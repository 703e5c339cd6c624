#include "tests/cuda/emulator/blas_objects.h"

#include <cstddef>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>

namespace troupe::emulator {
namespace {

/// Addresses of what is alive: a pointer that is not among them is a mistake
/// of the caller.
template <typename Object>
class Objects {
 public:
  template <typename Pointer>
  cublasStatus_t create(Pointer* pointer, Object object) {
    if (pointer == nullptr) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const std::lock_guard lock(mutex_);
    auto* made = new Object(object);
    live_.insert(made);
    *pointer = reinterpret_cast<Pointer>(made);
    return CUBLAS_STATUS_SUCCESS;
  }

  cublasStatus_t destroy(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<const Object*>(pointer));
    if (found == live_.end()) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    delete *found;
    live_.erase(found);
    return CUBLAS_STATUS_SUCCESS;
  }

  Object* find(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(static_cast<const Object*>(pointer));
    return found == live_.end() ? nullptr : const_cast<Object*>(*found);
  }

  std::int64_t count() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(live_.size());
  }

 private:
  std::mutex mutex_;
  std::set<const Object*> live_;
};

template <typename Object>
Objects<Object>& objects() {
  // Never destroyed: a context may outlive main.
  static auto* const all = new Objects<Object>();
  return *all;
}

/// Takes a value of exactly the documented type.
template <typename Value>
cublasStatus_t take(const void* value, std::size_t bytes, Value& to) {
  if (value == nullptr || bytes != sizeof(Value)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(&to, value, sizeof(Value));
  return CUBLAS_STATUS_SUCCESS;
}

/// Takes a value that `is_legal` accepts.
template <typename Value, typename IsLegal>
cublasStatus_t take_if(const void* value, std::size_t bytes, Value& to,
                       const IsLegal& is_legal) {
  Value taken{};
  const cublasStatus_t status = take(value, bytes, taken);
  if (status != CUBLAS_STATUS_SUCCESS || !is_legal(taken)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  to = taken;
  return CUBLAS_STATUS_SUCCESS;
}

bool is_operation(std::int32_t value) {
  return value == CUBLAS_OP_N || value == CUBLAS_OP_T;
}

bool is_epilogue(std::uint32_t value) {
  switch (value) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return true;
    default:
      return false;
  }
}

bool is_alignment(std::uint32_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

}  // namespace

const BlasHandleObject* object(cublasLtHandle_t handle) {
  return objects<BlasHandleObject>().find(handle);
}
const BlasDescription* object(cublasLtMatmulDesc_t description) {
  return objects<BlasDescription>().find(description);
}
const BlasLayout* object(cublasLtMatrixLayout_t layout) {
  return objects<BlasLayout>().find(layout);
}
const BlasPreference* object(cublasLtMatmulPreference_t preference) {
  return objects<BlasPreference>().find(preference);
}

std::int64_t live_blas_objects() {
  return objects<BlasHandleObject>().count() +
         objects<BlasDescription>().count() + objects<BlasLayout>().count() +
         objects<BlasPreference>().count();
}

cublasStatus_t blas_create(cublasLtHandle_t* handle) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  return objects<BlasHandleObject>().create(handle, {device});
}

cublasStatus_t blas_destroy(cublasLtHandle_t handle) {
  return objects<BlasHandleObject>().destroy(handle);
}

cublasStatus_t blas_matmul_desc_create(cublasLtMatmulDesc_t* description,
                                       cublasComputeType_t compute,
                                       cudaDataType_t scale) {
  return objects<BlasDescription>().create(
      description, {.compute = compute, .scale = scale});
}

cublasStatus_t blas_matmul_desc_destroy(cublasLtMatmulDesc_t description) {
  return objects<BlasDescription>().destroy(description);
}

cublasStatus_t blas_matmul_desc_set_attribute(
    cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
    const void* value, std::size_t bytes) {
  BlasDescription* d = objects<BlasDescription>().find(description);
  if (d == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take_if(value, bytes, d->transpose_a, is_operation);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take_if(value, bytes, d->transpose_b, is_operation);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      d->names_epilogue = true;
      return take_if(value, bytes, d->epilogue, is_epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(value, bytes, d->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return take(value, bytes, d->bias_batch_stride);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t blas_matrix_layout_create(cublasLtMatrixLayout_t* layout,
                                         cudaDataType type, std::uint64_t rows,
                                         std::uint64_t columns,
                                         std::int64_t stride) {
  return objects<BlasLayout>().create(
      layout,
      {.type = type, .rows = rows, .columns = columns, .stride = stride});
}

cublasStatus_t blas_matrix_layout_destroy(cublasLtMatrixLayout_t layout) {
  return objects<BlasLayout>().destroy(layout);
}

cublasStatus_t blas_matrix_layout_set_attribute(
    cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
    const void* value, std::size_t bytes) {
  BlasLayout* l = objects<BlasLayout>().find(layout);
  if (l == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take_if(value, bytes, l->batch,
                     [](std::int32_t count) { return count >= 1; });
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(value, bytes, l->batch_stride);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t blas_preference_create(cublasLtMatmulPreference_t* preference) {
  return objects<BlasPreference>().create(preference, {});
}

cublasStatus_t blas_preference_destroy(cublasLtMatmulPreference_t preference) {
  return objects<BlasPreference>().destroy(preference);
}

cublasStatus_t blas_preference_set_attribute(
    cublasLtMatmulPreference_t preference,
    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    std::size_t bytes) {
  BlasPreference* p = objects<BlasPreference>().find(preference);
  if (p == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(value, bytes, p->workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take_if(value, bytes, p->reduction_schemes,
                     [](std::uint32_t mask) {
                       return mask <= CUBLASLT_REDUCTION_SCHEME_MASK;
                     });
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take_if(value, bytes, p->alignment_a, is_alignment);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take_if(value, bytes, p->alignment_b, is_alignment);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take_if(value, bytes, p->alignment_c, is_alignment);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take_if(value, bytes, p->alignment_d, is_alignment);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

}  // namespace troupe::emulator
