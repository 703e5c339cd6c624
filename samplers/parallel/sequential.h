#pragma once

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {

/// Evaluation and step, evaluation and step … on one worker: what every exact
/// method is compared with. The batch method is one of these per sample.
class Sequential final : public CallByCall {
 public:
  using CallByCall::CallByCall;
  [[nodiscard]] int num_parts() const override { return 1; }

 private:
  void begin_call() override;
};

}  // namespace troupe::samplers
