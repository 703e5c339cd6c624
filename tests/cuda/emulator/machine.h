#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/emulator/arena.h"
#include "tests/cuda/emulator/emulator.h"

// The state of the emulated machine, behind one lock.

namespace troupe::emulator {

/// One thing a stream does.
struct Operation {
  std::string name;
  std::function<void()> run;
  /// Absent: at once.
  std::function<bool()> is_ready;
  /// Devices whose memory it touches, as bits; 0: what a kernel may touch.
  std::uint64_t touches = 0;
  /// Whether it counts as work of the device.
  bool is_work = true;
  /// Whether a call of another thread may have to come before it is ready.
  bool waits_for_ranks = false;
};
using Operations = std::vector<Operation>;

/// What a stream is recording.
struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  Operations operations;
  bool is_valid = true;
};

struct Stream {
  int device = 0;
  std::deque<Operation> queue;
  std::uint64_t num_queued = 0;
  std::uint64_t num_done = 0;
  std::unique_ptr<Capture> capture;
};

/// Done when as many of its records have run as were queued.
struct Event {
  int device = 0;
  bool has_time = true;
  std::uint64_t num_recorded = 0;
  std::uint64_t num_done = 0;
  std::chrono::steady_clock::time_point when;
  /// The stream whose capture recorded it last, or null.
  const Stream* captured_by = nullptr;
};

struct Graph {
  std::shared_ptr<const Operations> operations;
  int device = 0;
};

struct Device {
  int index = 0;
  /// What every call answers, once it is lost.
  cudaError_t lost = cudaSuccess;
  Counters counters;
  /// Operations until it is lost; negative: never.
  std::int64_t operations_left = -1;
  cudaError_t loss = cudaErrorLaunchFailure;
  bool hangs = false;
  /// Operations until it hangs; negative: never.
  std::int64_t operations_until_hang = -1;
  std::optional<std::chrono::steady_clock::time_point> fault;
  /// Between the beginnings of two operations.
  std::chrono::microseconds each{};
  std::chrono::steady_clock::time_point next_begins;
  /// What it holds is never given back.
  [[nodiscard]] bool is_gone() const { return lost != cudaSuccess || hangs; }
  /// Devices that may touch memory of this one's pool, as bits.
  std::uint64_t readers = 0;
  Stream* default_stream = nullptr;
};

struct CallFault {
  std::string function;
  cudaError_t error;
  int nth;
};

struct Machine {
  // Work may release memory, whose deleter calls the runtime.
  std::recursive_mutex mutex;
  Config config;
  std::uint64_t drawn = 0;  ///< what `draw` goes on from
  std::deque<Device> devices;
  Arena arena;
  std::map<std::byte*, std::size_t> pinned;
  std::list<Stream> streams;
  std::list<std::shared_ptr<Event>> events;
  std::set<Graph*> graphs;
  std::set<Graph*> executables;
  std::vector<CallFault> call_faults;
};

/// Never destroyed: tensors may outlive main.
[[nodiscard]] Machine& machine();

/// Ends the program, saying what the code under test did wrong.
[[noreturn]] void report_bug(const std::string& what);

[[nodiscard]] std::uint64_t bit(int device);
/// A number below `limit`.
[[nodiscard]] std::size_t draw(std::size_t limit);

// Of the calling thread.
[[nodiscard]] int& current_device();
[[nodiscard]] cudaError_t& last_error();
[[nodiscard]] Stream*& capturing_stream();

/// The body of a function of the runtime: takes the lock, injects faults and
/// keeps the error.
cudaError_t call(const char* function, const std::function<cudaError_t()>& fn);
/// The same for the calling thread's current device.
cudaError_t device_call(const char* function,
                        const std::function<cudaError_t(Device&)>& fn);
/// The same for a stream (null: the current device's default stream).
cudaError_t stream_call(const char* function, cudaStream_t stream,
                        const std::function<cudaError_t(Stream&, Device&)>& fn);

/// The calling thread's own, beside that of its capture.
[[nodiscard]] cudaStreamCaptureMode& capture_mode();
/// For what stops a capture by the calling thread (in both modes): invalidates
/// it. cudaSuccess without a capture.
[[nodiscard]] cudaError_t refuse_in_capture();

/// Queues or records.
cudaError_t push(Stream& stream, Operation operation);
/// Runs queued work of any stream until this stream has done what is queued
/// now. Returns its device's error.
cudaError_t finish(Stream& stream);
/// Runs queued work of any stream until `done`; `wanted` streams first, last
/// or by chance, as is drawn.
void run_until(const std::function<bool()>& done, const Stream* wanted);
/// Whether some stream can go on. False only where what comes next waits for
/// other threads, or for a device that is slow or hangs; streams that wait for
/// nothing else are a bug.
[[nodiscard]] bool can_go_on();
/// Drops what is queued: the device is lost.
void drop_work(int device);

}  // namespace troupe::emulator
