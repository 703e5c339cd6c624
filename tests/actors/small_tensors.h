#pragma once

#include <array>

#include "actors/parcels.h"
#include "kernels/core/tensor.h"

namespace troupe::actors {

/// A tensor of one element.
inline Tensor one(float value) {
  return Tensor::from<float>(std::array{value}, Shape{1});
}

/// Of a value on the host.
inline Parcel pack(const samplers::SlotTable::Value& value) {
  HostReader reader;
  return pack(value, reader);
}

/// Whether both are empty or have the same bytes.
inline bool same(const Tensor& a, const Tensor& b) {
  return a.empty() ? b.empty() : bytes_equal(a, b);
}

}  // namespace troupe::actors
