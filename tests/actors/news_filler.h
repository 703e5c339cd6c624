#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "actors/coordinator_events.h"

namespace troupe::actors {

/// Every field has a value of its own, so that a field that is left out or
/// mixed up shows.
class Filler {
 public:
  std::uint64_t big() { return (next_ += 0x9E3779B97F4A7C15U); }
  std::uint32_t word() { return static_cast<std::uint32_t>(big() >> 17U); }
  int small() { return static_cast<int>(word() >> 1U); }
  std::string text() { return "t" + std::to_string(big()); }
  ValueName name() { return {big(), word(), word()}; }
  Failure failure() { return {Errc::device_lost, text(), text(), text()}; }
  Tensor tensor() {
    return Tensor::from<float>(
        std::array{static_cast<float>(small()), -0.0F,
                   std::numeric_limits<float>::quiet_NaN()},
        Shape{1, 3});
  }
  SampleTask task() {
    return {big(),
            {.id = big(),
             .version = word(),
             .op = samplers::Op::sweep,
             .branch = samplers::Branch::uncond,
             .segment = small(),
             .part = small(),
             .from = small(),
             .to = small(),
             .timestep_call = small(),
             .inputs = {word(), word()},
             .outputs = {word()}},
            word(),
            big(),
            true};
  }
  Grant grant() {
    Grant made;
    made.worker = small();
    made.epoch = word();
    made.max_rows = small();
    made.coming_inputs = {name()};
    made.tasks = {task(), task()};
    made.remote_inputs = {{name(), small()}};
    made.frees = {{big(), word(), {word(), word()}}};
    return made;
  }
  GrantResult result() {
    GrantResult made;
    made.grants = {big(), big()};
    made.worker = small();
    made.epoch = word();
    made.results = {{big(), word(), {0.1, -0.0, std::nan("")}}};
    made.failure = failure();
    made.gone = {{name(), small()}};
    made.held = {{name(), {}}, {name(), {DeviceKind::cuda, 3}}};
    made.failed_elsewhere = true;
    made.previews = {{big(), small(), tensor()}};
    made.points = {{big(), small(), tensor()}};
    made.ticks = big();
    made.made = {name(), name()};
    made.reads = {{name(), big()}, {name(), big()}};
    made.span = {.worker = small(),
                 .process = small(),
                 .device = {DeviceKind::cuda, small()},
                 .op = samplers::Op::decode,
                 .sample_index = big(),
                 .rows = small(),
                 .step = small(),
                 .segment = small(),
                 .start = TimePoint(Duration(-small())),
                 .duration = Duration(small())};
    return made;
  }

 private:
  std::uint64_t next_ = 1;
};

}  // namespace troupe::actors
