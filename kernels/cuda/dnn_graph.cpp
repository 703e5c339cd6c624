#include "kernels/cuda/dnn_graph.cuh"

#include <algorithm>
#include <array>

#include "kernels/core/error.h"
#include "kernels/cuda/backend.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kGraphPlace = "cudnn";

cudnnDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      throw Error(Errc::internal, kGraphPlace,
                  "no operation on this element type");
  }
}

std::string last_message(const Dnn& dnn) {
  std::array<char, 512> text{};
  dnn.last_error_string(text.data(), text.size());
  const std::string message(text.data());
  return message.empty() ? "" : " (" + message + ")";
}

}  // namespace

void check(const Dnn& dnn, cudnnStatus_t status, std::string_view place) {
  if (status == CUDNN_STATUS_SUCCESS) {
    return;
  }
  check_alive(place);
  const std::string cause = std::string("cuDNN reports: ") +
                            dnn.error_string(status) + last_message(dnn);
  switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_BAD_PARAM:
    case CUDNN_STATUS_NOT_SUPPORTED:
      throw Error(Errc::unsupported, place, cause);
    default:
      break;
  }
  switch (status) {
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      throw Error(Errc::out_of_memory, place, cause);
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
      throw Error(Errc::device_full, place, cause);
    default:
      throw Error(Errc::internal, place, cause);
  }
}

DnnDescriptor::DnnDescriptor(const Dnn& dnn, cudnnBackendDescriptorType_t type)
    : dnn_(&dnn) {
  check(dnn, dnn.create_descriptor(type, &descriptor_), kGraphPlace);
}

DnnDescriptor::~DnnDescriptor() {
  if (descriptor_ != nullptr) {
    (void)dnn_->destroy_descriptor(descriptor_);
  }
}

DnnDescriptor::DnnDescriptor(DnnDescriptor&& other) noexcept
    : dnn_(other.dnn_),
      descriptor_(std::exchange(other.descriptor_, nullptr)) {}

DnnDescriptor& DnnDescriptor::operator=(DnnDescriptor&& other) noexcept {
  std::swap(dnn_, other.dnn_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, std::int64_t count,
                        const void* values) {
  check(*dnn_, dnn_->set_attribute(descriptor_, name, type, count, values),
        kGraphPlace);
}

void DnnDescriptor::set(cudnnBackendAttributeName_t name,
                        const DnnDescriptor& value) {
  const cudnnBackendDescriptor_t descriptor = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, descriptor);
}

void DnnDescriptor::set_integers(cudnnBackendAttributeName_t name,
                                 const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()),
      values.data());
}

void DnnDescriptor::finalize() {
  check(*dnn_, dnn_->finalize(descriptor_), kGraphPlace);
}

std::int64_t DnnDescriptor::read(cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type,
                                 std::int64_t capacity, void* values) const {
  std::int64_t count = 0;
  check(*dnn_,
        dnn_->get_attribute(descriptor_, name, type, capacity, &count, values),
        kGraphPlace);
  return capacity == 0 ? count : std::min(count, capacity);
}

const DnnDescriptor& DnnGraph::tensor(const DnnTensor& tensor) {
  for (const auto& [id, known] : tensors_) {
    if (id == tensor.id) {
      return known;
    }
  }
  DnnDescriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, tensor.id);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
           library_type(tensor.dtype));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64,
           tensor.alignment);
  made.set_integers(CUDNN_ATTR_TENSOR_DIMENSIONS,
                    {tensor.dims.begin(), tensor.dims.end()});
  made.set_integers(CUDNN_ATTR_TENSOR_STRIDES,
                    {tensor.strides.begin(), tensor.strides.end()});
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN,
           tensor.kind == DnnTensor::Kind::between);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN,
           tensor.kind == DnnTensor::Kind::number);
  made.finalize();
  return tensors_.emplace_back(tensor.id, std::move(made)).second;
}

void DnnGraph::append(DnnDescriptor operation) {
  operation.finalize();
  operations_.push_back(std::move(operation));
}

void DnnGraph::convolve(const DnnTensor& x, const DnnTensor& w,
                        const DnnTensor& y, std::int64_t stride,
                        std::int64_t padding_y, std::int64_t padding_x) {
  DnnDescriptor geometry = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64,
               std::int64_t{2});
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
               CUDNN_DATA_FLOAT);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
               CUDNN_CROSS_CORRELATION);
  geometry.set_integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
  geometry.set_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                        {stride, stride});
  geometry.set_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                        {padding_y, padding_x});
  geometry.set_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
                        {padding_y, padding_x});
  geometry.finalize();

  DnnDescriptor operation =
      make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, geometry);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(x));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(w));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(y));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_TYPE_FLOAT, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT,
                0.0F);
  parts_.push_back(std::move(geometry));
  append(std::move(operation));
}

void DnnGraph::pointwise(cudnnPointwiseMode_t mode, const DnnTensor& x,
                         const DnnTensor* b, const DnnTensor& y) {
  DnnDescriptor kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  kind.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
           CUDNN_DATA_FLOAT);
  kind.finalize();

  DnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensor(x));
  if (b != nullptr) {
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensor(*b));
  }
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensor(y));
  parts_.push_back(std::move(kind));
  append(std::move(operation));
}

void DnnGraph::add(const DnnTensor& x, const DnnTensor& b, const DnnTensor& y) {
  pointwise(CUDNN_POINTWISE_ADD, x, &b, y);
}

void DnnGraph::convert(const DnnTensor& x, const DnnTensor& y) {
  pointwise(CUDNN_POINTWISE_IDENTITY, x, nullptr, y);
}

void DnnGraph::attend(const DnnTensor& q, const DnnTensor& k,
                      const DnnTensor& v, const DnnTensor& scale,
                      const DnnTensor& o) {
  DnnDescriptor operation = make(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, tensor(q));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, tensor(k));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, tensor(v));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, tensor(scale));
  operation.set(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, tensor(o));
  append(std::move(operation));
}

DnnDescriptor DnnGraph::finish() {
  DnnDescriptor graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const DnnDescriptor& operation : operations_) {
    operations.push_back(operation.get());
  }
  if (target_.handle != nullptr) {
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
              target_.handle);
  }
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations.size()), operations.data());
  graph.finalize();
  return graph;
}

}  // namespace troupe::kernels::cuda
