#pragma once

#include "samplers/parallel/call_by_call.h"

namespace troupe::samplers {

/// The network cut in segments, one worker each, all at age 0. One sample keeps
/// one worker busy; with as many samples in flight as segments all are.
class Pipeline final : public CallByCall {
 public:
  Pipeline(int num_calls, int num_segments)
      : CallByCall(MethodKind::pipeline, num_calls),
        num_segments_(num_segments) {}

 private:
  void begin_call() override { issue_segment(0, state()); }
  void advance(const Task& finished) override;
  void issue_segment(int segment, Slot input);

  int num_segments_;
};

}  // namespace troupe::samplers
