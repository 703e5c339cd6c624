#pragma once

#include "kernels/core/fields.h"

namespace troupe::actors {

struct AnyVisitor {
  void operator()(const char* key, auto& field);
};
/// A struct with fields of its own.
template <typename T>
concept HasFields = requires(AnyVisitor& visit, T& record) {
  visit_fields(visit, record);
};

/// An optional or a shared pointer.
template <typename T>
concept MaybeUnset = requires(const T& field) {
  static_cast<bool>(field);
  *field;
};

}  // namespace troupe::actors
