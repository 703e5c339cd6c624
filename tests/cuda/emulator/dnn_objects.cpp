#include "tests/cuda/emulator/dnn_objects.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>

#include "tests/cuda/emulator/dnn.h"

namespace troupe::emulator {
namespace {

/// What may be set on a descriptor, and what must be.
/// Source: NVIDIA cuDNN 9 backend API reference, "backend descriptor types".
struct Rule {
  cudnnBackendDescriptorType_t descriptor;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most;  ///< values
  bool is_required;
};

constexpr auto kDescriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;
constexpr Rule kRules[] = {
#define TENSOR CUDNN_BACKEND_TENSOR_DESCRIPTOR
    {TENSOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
    {TENSOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {TENSOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true},
    {TENSOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8, true},
    {TENSOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8, true},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
    {TENSOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false},
#undef TENSOR
#define CONV CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR
    {CONV, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, true},
    {CONV, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CONV, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
     true},
    {CONV, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, true},
    {CONV, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, true},
    {CONV, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, true},
    {CONV, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, true},
#undef CONV
#define CONV CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, kDescriptor, 1,
     true},
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, kDescriptor, 1, true},
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, kDescriptor, 1, true},
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, kDescriptor, 1, true},
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1,
     true},
    {CONV, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1,
     true},
#undef CONV
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE,
     CUDNN_TYPE_POINTWISE_MODE, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC,
     CUDNN_TYPE_DATA_TYPE, 1, true},
#define POINTWISE CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kDescriptor, 1,
     true},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, kDescriptor, 1, true},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, kDescriptor, 1, false},
    {POINTWISE, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, kDescriptor, 1, true},
#undef POINTWISE
#define SDPA CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR
    {SDPA, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, kDescriptor, 1, true},
    {SDPA, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, kDescriptor, 1, true},
    {SDPA, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, kDescriptor, 1, true},
    {SDPA, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, kDescriptor, 1, true},
    {SDPA, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, kDescriptor, 1, true},
#undef SDPA
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
     CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS,
     kDescriptor, 64, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     kDescriptor, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE,
     CUDNN_TYPE_HEUR_MODE, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
     CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
     CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, kDescriptor, 1, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
     CUDNN_TYPE_INT64, 64, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
     CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 64, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
     CUDNN_TYPE_VOID_PTR, 1, true},
    // Filled by the library only.
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
     CUDNN_TYPE_INT64, 0, false},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
     kDescriptor, 0, false},
    {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
     CUDNN_TYPE_KNOB_TYPE, 0, false},
};

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
      return sizeof(std::int64_t);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    default:
      return sizeof(std::int32_t);  // floats and enumerations
  }
}

struct Registry {
  std::mutex mutex;
  std::map<const void*, std::shared_ptr<DnnObject>> objects;
};
Registry& registry() {
  static auto* const one = new Registry();
  return *one;
}

std::string& last_dnn_error() {
  thread_local std::string text;
  return text;
}

cudnnStatus_t set_objects(DnnObject::Values& values,
                          cudnnBackendDescriptor_t const* descriptors) {
  for (std::int64_t i = 0; i < values.count; ++i) {
    auto object = dnn_object(descriptors[i]);
    if (object == nullptr || !object->is_final) {
      return dnn_failure(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                         "a descriptor that is not final is set");
    }
    values.objects.push_back(std::move(object));
  }
  return CUDNN_STATUS_SUCCESS;
}

/// Whether y [N, O, P, Q] is what x [N, I, H, W] and w [O, I, kh, kw] give.
bool has_result_of_convolution(const DnnObject& operation) {
  const auto integers = [](const DnnObject& object,
                           cudnnBackendAttributeName_t name) {
    return object.all<std::int64_t>(name);
  };
  const auto dims = [&](cudnnBackendAttributeName_t name) {
    return integers(*operation.object(name), CUDNN_ATTR_TENSOR_DIMENSIONS);
  };
  const auto x = dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
  const auto w = dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
  const auto& geometry =
      *operation.object(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
  const auto pad = integers(geometry, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto stride = integers(geometry, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto side = [&](std::size_t axis) {
    return (x[2 + axis] + 2 * pad[axis] - w[2 + axis]) / stride[axis] + 1;
  };
  return dims(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y) ==
         std::vector<std::int64_t>{x[0], w[0], side(0), side(1)};
}

}  // namespace

cudnnStatus_t dnn_failure(cudnnStatus_t status, const char* why) {
  last_dnn_error() = std::string("emulated: ") + why;
  return status;
}

void dnn_last_error(char* message, std::size_t size) {
  if (size > 0) {
    const std::size_t count = std::min(size - 1, last_dnn_error().size());
    std::memcpy(message, last_dnn_error().data(), count);
    message[count] = '\0';
  }
  last_dnn_error().clear();
}

std::shared_ptr<DnnObject> dnn_object(const void* descriptor) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().objects.find(descriptor);
  return found == registry().objects.end() ? nullptr : found->second;
}

std::int64_t live_dnn_objects() {
  const std::lock_guard lock(registry().mutex);
  return static_cast<std::int64_t>(registry().objects.size());
}

cudnnStatus_t dnn_create_descriptor(cudnnBackendDescriptorType_t type,
                                    cudnnBackendDescriptor_t* descriptor) {
  const bool known =
      std::any_of(std::begin(kRules), std::end(kRules),
                  [&](const Rule& rule) { return rule.descriptor == type; });
  if (descriptor == nullptr || !known) {
    return dnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "an unknown descriptor");
  }
  auto object = std::make_shared<DnnObject>();
  object->type = type;
  const std::lock_guard lock(registry().mutex);
  *descriptor = object.get();
  registry().objects.emplace(object.get(), std::move(object));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t dnn_destroy_descriptor(cudnnBackendDescriptor_t descriptor) {
  const std::lock_guard lock(registry().mutex);
  return registry().objects.erase(descriptor) == 1 ? CUDNN_STATUS_SUCCESS
                                                   : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t dnn_set_attribute(cudnnBackendDescriptor_t descriptor,
                                cudnnBackendAttributeName_t name,
                                cudnnBackendAttributeType_t type,
                                std::int64_t count, const void* values) {
  const auto object = dnn_object(descriptor);
  if (object == nullptr || object->is_final || values == nullptr) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM, "set on what cannot be set");
  }
  const auto* const rule =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) {
        return r.descriptor == object->type && r.name == name;
      });
  if (rule == std::end(kRules) || rule->type != type) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                       "an attribute the descriptor lacks, or of another type");
  }
  if (count < 1 || count > rule->most) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
                       "too few or too many values");
  }
  DnnObject::Values set{type, count, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const cudnnStatus_t status =
        set_objects(set, static_cast<const cudnnBackendDescriptor_t*>(values));
    if (status != CUDNN_STATUS_SUCCESS) {
      return status;
    }
  } else {
    set.bytes.resize(static_cast<std::size_t>(count) * size_of(type));
    std::memcpy(set.bytes.data(), values, set.bytes.size());
  }
  object->values[name] = std::move(set);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_dnn_object(const DnnObject& object) {
  for (const Rule& rule : kRules) {
    if (rule.descriptor == object.type && rule.is_required &&
        !object.has(rule.name)) {
      return dnn_failure(CUDNN_STATUS_BAD_PARAM,
                         "a required attribute was not set");
    }
  }
  const auto same_count = [&](cudnnBackendAttributeName_t a,
                              cudnnBackendAttributeName_t b) {
    return object.values.at(a).count == object.values.at(b).count;
  };
  if (object.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    const auto dims = object.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto alignment =
        object.one<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    const bool ok =
        same_count(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES) &&
        std::all_of(dims.begin(), dims.end(), [](auto d) { return d > 0; }) &&
        alignment > 0 && (alignment & (alignment - 1)) == 0 &&
        !(object.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
          object.one<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE));
    return ok ? CUDNN_STATUS_SUCCESS
              : dnn_failure(CUDNN_STATUS_BAD_PARAM, "an impossible tensor");
  }
  if (object.type == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR &&
      object.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) !=
          object.all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)) {
    // The library takes it, but not with every engine.
    return dnn_failure(CUDNN_STATUS_NOT_SUPPORTED, "unequal padding");
  }
  if (object.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
      !has_result_of_convolution(object)) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM, "the result's shape is wrong");
  }
  if (object.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
      !same_count(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)) {
    return dnn_failure(CUDNN_STATUS_BAD_PARAM, "ids and pointers differ");
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace troupe::emulator
