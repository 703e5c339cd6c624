#pragma once

#include <cstdint>

// What a test may set and ask of the emulated cuDNN.

namespace troupe::emulator {

struct DnnBehaviour {
  /// Sums of a graph of several items run backwards.
  bool bits_depend_on_batch = false;
  /// The engine is never offered with the same settings for two batch sizes.
  bool engines_depend_on_batch = false;
  /// The same of attention, for two numbers of queries.
  bool engines_depend_on_queries = false;
  /// Sums of attention run backwards for fewer than 100 queries.
  bool bits_depend_on_queries = false;
  /// The engine of a convolution is never offered with the same settings for
  /// images of two heights.
  bool engines_depend_on_height = false;
  /// Sums of a convolution run backwards for images of fewer than 10 rows.
  bool bits_depend_on_height = false;
  /// No engine can do anything.
  bool refuses_everything = false;
};

struct DnnCounters {
  std::uint64_t plans = 0;       ///< finalised
  std::uint64_t executions = 0;  ///< queued
};

/// Sets the behaviour from now on and the counters to 0. Thread: any.
void set_dnn_behaviour(const DnnBehaviour& behaviour);
[[nodiscard]] DnnBehaviour dnn_behaviour();
[[nodiscard]] DnnCounters dnn_counters();
/// Descriptors and handles that are not destroyed. Thread: any.
[[nodiscard]] std::int64_t live_dnn_objects();

}  // namespace troupe::emulator
