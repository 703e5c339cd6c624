#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/core/dtype.h"
#include "tests/cuda/emulator/dnn_objects.h"

// What a graph means: its operations in order, on values in f32, straight from
// their descriptions.

namespace troupe::emulator {
namespace {

using Name = cudnnBackendAttributeName_t;
using Index = std::array<std::int64_t, 4>;

/// A tensor's values, in the order of its axes.
struct Values {
  Index dims{};
  std::vector<float> at;

  explicit Values(const Index& shape)
      : dims(shape),
        at(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] *
                                    shape[3])) {}
  /// An axis of 1 is repeated.
  [[nodiscard]] std::size_t place(const Index& i) const {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) {
      place = place * dims[axis] + (dims[axis] == 1 ? 0 : i[axis]);
    }
    return static_cast<std::size_t>(place);
  }
  float& operator[](const Index& i) { return at[place(i)]; }
  float operator[](const Index& i) const { return at[place(i)]; }
};

template <typename Fn>
void for_each(const Index& dims, const Fn& fn) {
  Index i{};
  for (i[0] = 0; i[0] < dims[0]; ++i[0]) {
    for (i[1] = 0; i[1] < dims[1]; ++i[1]) {
      for (i[2] = 0; i[2] < dims[2]; ++i[2]) {
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) {
          fn(i);
        }
      }
    }
  }
}

Index four(const DnnObject& object, Name name) {
  const auto values = object.all<std::int64_t>(name);
  Index index{};
  std::copy_n(values.begin(), std::min<std::size_t>(4, values.size()),
              index.begin());
  return index;
}

float load(const std::byte* from, cudnnDataType_t type) {
  std::uint16_t half = 0;
  float value = 0;
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      std::memcpy(&half, from, sizeof(half));
      return bfloat16{half}.to_float();
    case CUDNN_DATA_HALF:
      std::memcpy(&half, from, sizeof(half));
      return float16{half}.to_float();
    default:
      std::memcpy(&value, from, sizeof(value));
      return value;
  }
}

void store(float value, std::byte* to, cudnnDataType_t type) {
  std::uint16_t half = 0;
  switch (type) {
    case CUDNN_DATA_BFLOAT16:
      half = bfloat16::from_float(value).bits;
      std::memcpy(to, &half, sizeof(half));
      return;
    case CUDNN_DATA_HALF:
      half = float16::from_float(value).bits;
      std::memcpy(to, &half, sizeof(half));
      return;
    default:
      std::memcpy(to, &value, sizeof(value));
  }
}

/// TF32: 10 bits of mantissa.
float rounded(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) &
                              0xffffe000U);
}

/// One run of a graph.
class Run {
 public:
  explicit Run(const DnnExecution& execution) : execution_(execution) {}

  void operation(const DnnObject& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
        return convolve(operation);
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(operation);
      default:
        return attend(operation);
    }
  }

 private:
  [[nodiscard]] Values read(const DnnObject& tensor) {
    const auto id = tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const auto between = between_.find(id);
    if (between != between_.end()) {
      return between->second;
    }
    Values values(four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS));
    const auto number = execution_.numbers.find(id);
    if (number != execution_.numbers.end()) {
      values.at.assign(values.at.size(), number->second);
      return values;
    }
    visit(tensor, [&](const Index& i, std::byte* place, cudnnDataType_t type) {
      values[i] = load(place, type);
    });
    return values;
  }

  /// What a product reads: 16-bit types are exact in TF32.
  [[nodiscard]] Values factor(const DnnObject& tensor) {
    Values values = read(tensor);
    if (execution_.offer.kind == DnnOffer::Kind::rounds) {
      std::transform(values.at.begin(), values.at.end(), values.at.begin(),
                     rounded);
    }
    return values;
  }

  void write(const DnnObject& tensor, Values values) {
    if (tensor.one<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      between_.insert_or_assign(
          tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          std::move(values));
      return;
    }
    const bool is_nonsense =
        execution_.offer.kind == DnnOffer::Kind::varies ||
        execution_.offer.kind == DnnOffer::Kind::transforms;
    visit(tensor, [&](const Index& i, std::byte* place, cudnnDataType_t type) {
      store(is_nonsense ? 1e4F : values[i], place, type);
    });
  }

  template <typename Fn>
  void visit(const DnnObject& tensor, const Fn& fn) {
    const Index strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
    const auto type = tensor.one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    const std::int64_t size = type == CUDNN_DATA_FLOAT ? 4 : 2;
    std::byte* first = execution_.memory.at(
        tensor.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
    for_each(four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS), [&](const Index& i) {
      fn(i,
         first + size * (i[0] * strides[0] + i[1] * strides[1] +
                         i[2] * strides[2] + i[3] * strides[3]),
         type);
    });
  }

  /// Index k of a sum of `count` terms, in the order this run adds them.
  [[nodiscard]] std::int64_t nth(std::int64_t k, std::int64_t count,
                                 std::int64_t items) const {
    return execution_.backwards && items > 1 ? count - 1 - k : k;
  }

  void convolve(const DnnObject& operation) {
    const auto& geometry =
        *operation.object(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
    const Index stride = four(geometry, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const Index pad = four(geometry, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const auto& y_tensor =
        *operation.object(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    const Values x =
        factor(*operation.object(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
    const Values w =
        factor(*operation.object(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
    Values y(four(y_tensor, CUDNN_ATTR_TENSOR_DIMENSIONS));
    const std::int64_t taps = w.dims[1] * w.dims[2] * w.dims[3];
    constexpr std::int64_t kFewRows = 10;
    const bool is_turned = execution_.low_backwards && x.dims[2] < kFewRows;
    for_each(y.dims, [&](const Index& o) {
      float sum = 0;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t tap =
            is_turned ? taps - 1 - k : nth(k, taps, x.dims[0]);
        const std::int64_t channel = tap % w.dims[1];
        const std::int64_t dx = tap / w.dims[1] % w.dims[3];
        const std::int64_t dy = tap / w.dims[1] / w.dims[3];
        const std::int64_t row = o[2] * stride[0] - pad[0] + dy;
        const std::int64_t column = o[3] * stride[1] - pad[1] + dx;
        if (row >= 0 && row < x.dims[2] && column >= 0 && column < x.dims[3]) {
          sum += x[{o[0], channel, row, column}] * w[{o[1], channel, dy, dx}];
        }
      }
      y[o] = sum;
    });
    write(y_tensor, std::move(y));
  }

  void pointwise(const DnnObject& operation) {
    const auto mode =
        operation.object(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
            ->one<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    const auto& y_tensor =
        *operation.object(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    Values y = read(*operation.object(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    if (mode == CUDNN_POINTWISE_ADD) {
      const Values b =
          read(*operation.object(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
      for_each(y.dims, [&](const Index& i) { y[i] += b[i]; });
    }
    write(y_tensor, std::move(y));
  }

  void attend(const DnnObject& operation) {
    const Values q =
        read(*operation.object(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC));
    const Values k =
        read(*operation.object(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC));
    const Values v =
        read(*operation.object(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC));
    const float scale =
        read(*operation.object(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC)).at[0];
    Values o(q.dims);
    const std::int64_t keys = k.dims[2];
    constexpr std::int64_t kFewQueries = 100;
    const bool is_turned = execution_.few_backwards && q.dims[2] < kFewQueries;
    std::vector<float> logits(static_cast<std::size_t>(keys));
    for_each({q.dims[0], q.dims[1], q.dims[2], 1}, [&](const Index& row) {
      float most = -std::numeric_limits<float>::infinity();
      for (std::int64_t key = 0; key < keys; ++key) {
        float sum = 0;
        for (std::int64_t d = 0; d < q.dims[3]; ++d) {
          sum += q[{row[0], row[1], row[2], d}] * k[{row[0], row[1], key, d}];
        }
        logits[static_cast<std::size_t>(key)] = sum * scale;
        most = std::max(most, sum * scale);
      }
      float total = 0;
      for (float& logit : logits) {
        logit = std::exp(logit - most);
        total += logit;
      }
      for (std::int64_t d = 0; d < q.dims[3]; ++d) {
        float sum = 0;
        for (std::int64_t i = 0; i < keys; ++i) {
          const std::int64_t key =
              is_turned ? keys - 1 - i : nth(i, keys, q.dims[0]);
          sum += logits[static_cast<std::size_t>(key)] *
                 v[{row[0], row[1], key, d}];
        }
        o[{row[0], row[1], row[2], d}] = sum / total;
      }
    });
    write(*operation.object(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC), std::move(o));
  }

  const DnnExecution& execution_;
  std::map<std::int64_t, Values> between_;
};

}  // namespace

void DnnExecution::run() const {
  // A workspace that is used by others at the same time shows.
  std::memset(workspace, 0xa5, static_cast<std::size_t>(workspace_bytes));
  Run run(*this);
  for (const auto& operation :
       graph->values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).objects) {
    run.operation(*operation);
  }
}

}  // namespace troupe::emulator
