#include "tests/cuda/emulator/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda/emulator/faults.h"
#include "tests/cuda/emulator/running.h"

namespace troupe::emulator {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Operations of this device until its fault, from "DEVICE:OPERATIONS";
/// negative: never.
std::int64_t ordered_for(int device, const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) {
    return -1;
  }
  char* end = nullptr;
  const long index = std::strtol(text, &end, 10);
  return index == device && *end == ':' ? std::strtoll(end + 1, nullptr, 10)
                                        : -1;
}

void set_up(Machine& it, const Config& config) {
  it.config = config;
  it.drawn = config.seed;
  it.devices.clear();
  it.call_faults.clear();
  it.streams.clear();
  it.events.clear();
  for (int index = 0; index < config.devices; ++index) {
    Device& device = it.devices.emplace_back();
    device.index = index;
    device.readers = bit(index);
    device.default_stream = &it.streams.emplace_back();
    device.default_stream->device = index;
  }
}

/// What a lost device still holds could not be given back.
void forget_lost(Machine& it, int device) {
  it.arena.remove_device(device);
  it.streams.remove_if(
      [&](const Stream& stream) { return stream.device == device; });
  it.events.remove_if(
      [&](const auto& event) { return event->device == device; });
  for (auto* graphs : {&it.graphs, &it.executables}) {
    for (auto at = graphs->begin(); at != graphs->end();) {
      Graph* graph = *at;
      at = graph->device == device ? graphs->erase(at) : std::next(at);
      if (graph->device == device) {
        delete graph;
      }
    }
  }
}

/// The error a test ordered for this call, if it is due.
cudaError_t ordered_fault(const char* function) {
  auto& faults = machine().call_faults;
  for (auto fault = faults.begin(); fault != faults.end(); ++fault) {
    if (fault->function == function && --fault->nth == 0) {
      const cudaError_t error = fault->error;
      faults.erase(fault);
      return error;
    }
  }
  return cudaSuccess;
}

}  // namespace

Machine& machine() {
  static Machine* const it = [] {
    auto* made = new Machine;
    set_up(*made, default_config());
    for (Device& device : made->devices) {
      device.operations_left = ordered_for(device.index, "EMULATED_LOSS");
      device.operations_until_hang = ordered_for(device.index, "EMULATED_HANG");
    }
    explain_faults();
    return made;
  }();
  return *it;
}

Config default_config() {
  Config config;
  config.devices = static_cast<int>(number_of("EMULATED_GPUS", 1));
  config.memory_bytes = number_of("EMULATED_MEMORY", config.memory_bytes);
  config.seed = number_of("EMULATED_SEED", config.seed);
  return config;
}

void configure(const Config& config) {
  Machine& it = machine();
  const std::scoped_lock lock(it.mutex);
  bool hangs = false;
  for (const Device& device : it.devices) {
    hangs |= device.hangs;
    if (device.is_gone()) {
      forget_lost(it, device.index);
    }
  }
  for (const Device& device : it.devices) {
    if (device.is_gone()) {
      continue;
    }
    run_until([&] { return device.default_stream->queue.empty(); }, nullptr);
    if (it.arena.bytes_in_use(device.index) != 0) {
      report_bug(std::to_string(it.arena.bytes_in_use(device.index)) +
                 " bytes of device memory are still held");
    }
  }
  const auto num_devices = static_cast<std::size_t>(
      std::ranges::count(it.devices, false, &Device::is_gone));
  if (it.streams.size() != num_devices || !it.events.empty() ||
      !it.graphs.empty() || !it.executables.empty()) {
    report_bug("streams, events or graphs are still held");
  }
  if (hangs) {
    // Queues that waited for the device never released its memory.
    for (const auto& [start, bytes] : it.pinned) {
      munmap(start, bytes);
    }
    it.pinned.clear();
  }
  if (!it.pinned.empty()) {
    report_bug("pinned memory is still held");
  }
  set_up(it, config);
}

Config config() {
  const std::scoped_lock lock(machine().mutex);
  return machine().config;
}

Counters counters(int device) {
  const std::scoped_lock lock(machine().mutex);
  return machine().devices.at(static_cast<std::size_t>(device)).counters;
}

std::size_t graphs_held() {
  const std::scoped_lock lock(machine().mutex);
  return machine().executables.size();
}

std::size_t bytes_in_use(int device) {
  const std::scoped_lock lock(machine().mutex);
  return machine().arena.bytes_in_use(device);
}

void lose_device(int device, std::uint64_t operations, cudaError_t error) {
  const std::scoped_lock lock(machine().mutex);
  Device& it = machine().devices.at(static_cast<std::size_t>(device));
  it.operations_left = static_cast<std::int64_t>(operations);
  it.loss = error;
}

void hang_device(int device, std::uint64_t operations) {
  const std::scoped_lock lock(machine().mutex);
  machine().devices.at(static_cast<std::size_t>(device)).operations_until_hang =
      static_cast<std::int64_t>(operations);
}

std::optional<std::chrono::steady_clock::time_point> time_of_fault(int device) {
  const std::scoped_lock lock(machine().mutex);
  return machine().devices.at(static_cast<std::size_t>(device)).fault;
}

void slow_down(int device, std::chrono::microseconds each) {
  const std::scoped_lock lock(machine().mutex);
  machine().devices.at(static_cast<std::size_t>(device)).each = each;
}

void fail_call(std::string_view function, cudaError_t error, int nth) {
  const std::scoped_lock lock(machine().mutex);
  machine().call_faults.push_back({std::string(function), error, nth});
}

void report_bug(const std::string& what) {
  std::fprintf(stderr, "emulated GPU: %s%s (EMULATED_SEED=%llu)\n",
               what.c_str(), while_running().c_str(),
               static_cast<unsigned long long>(machine().config.seed));
  std::abort();
}

std::uint64_t bit(int device) {
  return std::uint64_t{1} << static_cast<unsigned>(device);
}

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a kernel draws at every
// meeting of its threads, and a Mersenne twister took an eighth of the tests'
// time.
std::size_t draw(std::size_t limit) {
  std::uint64_t bits = machine().drawn += 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return (bits ^ (bits >> 31U)) % limit;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

cudaError_t& last_error() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

Stream*& capturing_stream() {
  thread_local Stream* stream = nullptr;
  return stream;
}

cudaError_t call(const char* function, const std::function<cudaError_t()>& fn) {
  const std::scoped_lock lock(machine().mutex);
  cudaError_t status = ordered_fault(function);
  if (status == cudaSuccess) {
    status = fn();
  }
  if (status != cudaSuccess) {
    last_error() = status;
  }
  return status;
}

cudaError_t device_call(const char* function,
                        const std::function<cudaError_t(Device&)>& fn) {
  return call(function, [&] {
    auto& devices = machine().devices;
    const auto index = static_cast<std::size_t>(current_device());
    if (index >= devices.size()) {
      return cudaErrorNoDevice;
    }
    Device& device = devices[index];
    return device.lost != cudaSuccess ? device.lost : fn(device);
  });
}

cudaError_t stream_call(
    const char* function, cudaStream_t handle,
    const std::function<cudaError_t(Stream&, Device&)>& fn) {
  return device_call(function, [&](Device& current) {
    auto* stream = reinterpret_cast<Stream*>(handle);
    if (stream == nullptr) {
      stream = current.default_stream;
    }
    auto& streams = machine().streams;
    if (std::none_of(streams.begin(), streams.end(),
                     [&](const Stream& one) { return &one == stream; })) {
      return cudaErrorInvalidResourceHandle;
    }
    Device& device =
        machine().devices[static_cast<std::size_t>(stream->device)];
    return device.lost != cudaSuccess ? device.lost : fn(*stream, device);
  });
}

}  // namespace troupe::emulator
