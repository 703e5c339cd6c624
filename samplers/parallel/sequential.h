#pragma once

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {

/// Evaluation and step, evaluation and step … on one worker: what every exact
/// method is compared with. The batch method is one of these per sample.
class Sequential final : public CallByCall {
 public:
  using CallByCall::CallByCall;

 private:
  void begin_call() override;
};

}  // namespace troupe::samplers
