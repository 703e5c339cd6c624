#include "tests/cuda/emulator/streams.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/running.h"

namespace troupe::emulator {
namespace {

/// How a wait treats the other streams. What is not ordered by the program may
/// run in any of these ways.
enum class Fairness { wanted_first, by_chance, others_first };

Device& device_of(const Stream& stream) {
  return machine().devices[static_cast<std::size_t>(stream.device)];
}

bool is_runnable(const Stream& stream) {
  const Device& device = device_of(stream);
  return !stream.queue.empty() && !device.hangs &&
         (device.each.count() == 0 ||
          device.next_begins <= std::chrono::steady_clock::now()) &&
         (!stream.queue.front().is_ready || stream.queue.front().is_ready());
}

/// Whether work of a slow device would run later.
bool is_slow_at_work() {
  return std::ranges::any_of(machine().streams, [](const Stream& stream) {
    return !stream.queue.empty() && !device_of(stream).hangs &&
           device_of(stream).each.count() > 0;
  });
}

/// Whether a call of another thread may let a stream go on.
bool wait_for_ranks() {
  return std::ranges::any_of(machine().streams, [](const Stream& stream) {
    return !stream.queue.empty() && stream.queue.front().waits_for_ranks;
  });
}

bool hangs_at_work() {
  return std::ranges::any_of(machine().streams, [](const Stream& stream) {
    return !stream.queue.empty() && device_of(stream).hangs;
  });
}

Stream* choose(const Stream* wanted, Fairness fairness) {
  std::vector<Stream*> runnable;
  Stream* first = nullptr;
  for (Stream& stream : machine().streams) {
    if (is_runnable(stream)) {
      runnable.push_back(&stream);
      if (&stream == wanted) {
        first = &stream;
      }
    }
  }
  if (runnable.empty()) {
    return nullptr;
  }
  if (first != nullptr && fairness == Fairness::wanted_first) {
    return first;
  }
  if (first != nullptr && fairness == Fairness::others_first &&
      runnable.size() > 1) {
    std::erase(runnable, first);
  }
  return runnable[draw(runnable.size())];
}

/// What a kernel of this device may touch.
std::uint64_t reach_of(int device) {
  std::uint64_t mask = 0;
  for (const Device& other : machine().devices) {
    if ((other.readers & bit(device)) != 0) {
      mask |= bit(other.index);
    }
  }
  return mask;
}

void run_next(Stream& stream) {
  Machine& it = machine();
  Device& device = device_of(stream);
  if (stream.queue.front().is_work && device.operations_until_hang >= 0 &&
      device.operations_until_hang-- == 0) {
    device.hangs = true;
    device.fault = std::chrono::steady_clock::now();
    return;
  }
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.is_work && device.each.count() > 0) {
    device.next_begins = std::chrono::steady_clock::now() + device.each;
  }
  if (operation.is_work && device.operations_left >= 0 &&
      device.operations_left-- == 0) {
    device.lost = device.loss;
    device.fault = std::chrono::steady_clock::now();
    drop_work(device.index);
    return;
  }
  if (operation.run) {
    it.arena.open(operation.touches != 0 ? operation.touches
                                         : reach_of(stream.device));
    const Running running(operation.name);
    try {
      operation.run();
    } catch (const std::exception& error) {
      report_bug(std::string("an exception: ") + error.what());
    }
    if (operation.is_work) {
      it.arena.check_surroundings();
    }
  }
  ++stream.num_done;
}

}  // namespace

void drop_work(int device) {
  for (Stream& stream : machine().streams) {
    if (stream.device == device) {
      stream.queue.clear();
      stream.num_done = stream.num_queued;
    }
  }
  // Others that wait for it go on; the host learns of the loss.
  for (const auto& event : machine().events) {
    if (event->device == device) {
      event->num_done = event->num_recorded;
    }
  }
}

bool can_go_on() {
  for (Stream& stream : machine().streams) {
    if (is_runnable(stream)) {
      return true;
    }
  }
  machine().arena.open(0);
  if (!wait_for_ranks() && !is_slow_at_work() && !hangs_at_work()) {
    report_bug("a wait that nothing ends");
  }
  return false;
}

void run_until(const std::function<bool()>& done, const Stream* wanted) {
  const auto fairness = static_cast<Fairness>(draw(3));
  while (!done()) {
    Stream* stream = choose(wanted, fairness);
    if (stream != nullptr) {
      run_next(*stream);
    } else if (wait_for_ranks()) {
      // Other threads queue what ranks wait for.
      machine().arena.open(0);
      machine().mutex.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      machine().mutex.lock();
    } else if (!is_slow_at_work()) {
      report_bug(hangs_at_work() ? "a wait for a device that hangs"
                                 : "a wait that nothing ends");
    }
  }
  machine().arena.open(0);
}

cudaError_t finish(Stream& stream) {
  const std::uint64_t target = stream.num_queued;
  run_until([&] { return stream.num_done >= target; }, &stream);
  return device_of(stream).lost;
}

cudaError_t push(Stream& stream, Operation operation) {
  Device& device = device_of(stream);
  if (stream.capture) {
    if (!stream.capture->is_valid) {
      return cudaErrorStreamCaptureInvalidated;
    }
    stream.capture->operations.push_back(std::move(operation));
    return cudaSuccess;
  }
  if (operation.is_work) {
    ++device.counters.operations;
  }
  stream.queue.push_back(std::move(operation));
  ++stream.num_queued;
  return cudaSuccess;
}

cudaStreamCaptureMode& capture_mode() {
  thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  return mode;
}

cudaError_t refuse_in_capture() {
  Stream* stream = capturing_stream();
  if (stream == nullptr || !stream->capture ||
      stream->capture->mode == cudaStreamCaptureModeRelaxed ||
      capture_mode() == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  stream->capture->is_valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t enqueue(cudaStream_t stream, std::string name,
                    std::function<void()> work) {
  return stream_call("enqueue", stream, [&](Stream& on, Device& device) {
    if (device.index != current_device()) {
      return cudaErrorInvalidResourceHandle;
    }
    return push(on, {std::move(name), std::move(work)});
  });
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  (void)enqueue(stream, "a library's work", std::move(work));
}

bool is_capturing(cudaStream_t stream) {
  const std::scoped_lock lock(machine().mutex);
  const auto* it = reinterpret_cast<const Stream*>(stream);
  return it != nullptr && it->capture != nullptr;
}

}  // namespace troupe::emulator
