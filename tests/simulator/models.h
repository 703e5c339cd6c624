#pragma once

#include "kernels/core/clock.h"

namespace troupe::actors::simulator {

/// How long a device takes for a forward pass: fixed + rows × per_row, times a
/// random factor in [1, 1 + jitter).
struct DeviceModel {
  Duration fixed = std::chrono::milliseconds(2);
  Duration per_row = std::chrono::milliseconds(8);
  double jitter = 0.2;
  /// Blocks of a pass. It can end early, and shows life, between two of them.
  int blocks = 8;
};

/// How long a message takes: latency plus up to `jitter`. Messages between two
/// actors keep their order, as in CAF; messages of different senders do not.
struct LinkModel {
  Duration latency = std::chrono::microseconds(20);
  Duration jitter = std::chrono::microseconds(60);
};

/// The network between two hosts, each way. A connection keeps the order of its
/// frames.
struct NetModel {
  Duration latency = std::chrono::microseconds(100);
  Duration jitter = std::chrono::microseconds(100);
  double bytes_per_second = 125e6;                     ///< of a connection
  Duration reconnect = std::chrono::milliseconds(50);  ///< after a loss
};

/// How long a worker takes to start, and until its end is noticed: less than a
/// message takes, so that the last result may come after the news.
struct ProcessModel {
  Duration start = std::chrono::milliseconds(3);
  Duration notice = std::chrono::microseconds(10);
  /// Until others notice that a whole process has ended.
  Duration process_notice = std::chrono::milliseconds(100);
};

}  // namespace troupe::actors::simulator
