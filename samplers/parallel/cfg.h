#pragma once

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {

/// The two guidance branches of a model call on two workers (parts 0 and 1),
/// combined and stepped at home. Exact: rows of a forward are independent.
class Cfg final : public CallByCall {
 public:
  explicit Cfg(int num_calls) : CallByCall(MethodKind::cfg, num_calls) {}

 private:
  void begin_call() override;
  void advance(const Task& finished) override;
};

}  // namespace troupe::samplers
