#include "net/nccl.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "kernels/core/error.h"
#include "net/nccl_library.cuh"

namespace troupe::net {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

using SteadyTime = std::chrono::steady_clock;

[[nodiscard]] Errc code_of(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return Errc::device_full;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInsufficientDriver:
      return Errc::unsupported;
    default:
      return Errc::device_lost;
  }
}

void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) {
    (void)cudaGetLastError();  // a later check of another call would find it
    throw Error(code_of(status), kCommunicatorPlace,
                std::string("CUDA says: ") + cudaGetErrorString(status));
  }
}

/// Waits between two looks at the device: short at first, because most
/// exchanges take microseconds.
class Pause {
 public:
  static constexpr int kShort = 1000;

  void operator()() {
    if (++num_looks_ < kShort) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  /// Whether there were many looks: time may also pass because this thread does
  /// not run.
  [[nodiscard]] bool has_looked_often() const { return num_looks_ >= kShort; }

 private:
  int num_looks_ = 0;
};

/// Memory that grows: of the device, in the order of a stream, or pinned.
struct Buffer {
  std::byte* start = nullptr;
  std::size_t bytes = 0;
};

/// Objects of NCCL and CUDA for one rank. They may outlive the communicator: a
/// thread that aborts them owns them, too.
struct NcclRank {
  NcclLibrary library;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Buffer heads;    ///< of the device
  Buffer scratch;  ///< of the device
  Buffer pinned;

  std::mutex mutex;
  std::condition_variable changed;
  bool has_ended = false;  ///< and nothing of it is left

  /// `bytes` of the device; what was there before is lost.
  std::byte* grow(Buffer& buffer, std::size_t bytes) const {
    if (buffer.bytes < bytes) {
      if (buffer.start != nullptr) {
        check_cuda(cudaFreeAsync(std::exchange(buffer.start, nullptr), stream));
      }
      buffer.bytes = 0;
      void* start = nullptr;
      check_cuda(cudaMallocAsync(&start, bytes, stream));
      buffer = {static_cast<std::byte*>(start), bytes};
    }
    return buffer.start;
  }

  /// The same, pinned. No work uses it.
  std::byte* grow_pinned(std::size_t bytes) {
    if (pinned.bytes < bytes) {
      check_cuda(cudaFreeHost(std::exchange(pinned.start, nullptr)));
      pinned.bytes = 0;
      void* start = nullptr;
      check_cuda(cudaMallocHost(&start, bytes));
      pinned = {static_cast<std::byte*>(start), bytes};
    }
    return pinned.start;
  }

  /// What NCCL says of the calls so far.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = library.comm_get_async_error(comm, &state);
    return asked != ncclSuccess ? asked : state;
  }

  /// Ends everything. May hang. `is_clean`: no operation failed; otherwise
  /// NCCL's own way out would wait for ranks that are no more.
  void end(bool is_clean, Duration patience) {
    cudaSetDevice(device);
    if (comm != nullptr) {
      if (is_clean && finalize(SteadyTime::now() + patience / 2)) {
        library.comm_destroy(comm);
      } else {
        library.comm_abort(comm);
      }
    }
    if (stream != nullptr) {
      for (const Buffer& buffer : {heads, scratch}) {
        if (buffer.start != nullptr) {
          cudaFreeAsync(buffer.start, stream);
        }
      }
      cudaStreamDestroy(stream);
    }
    cudaFreeHost(pinned.start);
    const std::lock_guard lock(mutex);
    has_ended = true;
    changed.notify_all();
  }

  /// Returns whether it is done.
  [[nodiscard]] bool finalize(TimePoint until) const {
    ncclResult_t result = library.comm_finalize(comm);
    Pause pause;
    while (result == ncclInProgress &&
           (SteadyTime::now() < until || !pause.has_looked_often())) {
      pause();
      result = state();
    }
    return result == ncclSuccess;
  }
};

/// Stands before each message, and says its operation.
struct NcclHead {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
};

class JoinedRank final : public NcclCommunicator {
 public:
  explicit JoinedRank(NcclOptions options)
      : options_(std::move(options)), its_(std::make_shared<NcclRank>()) {
    its_->library = load_nccl();
    its_->device = options_.device;
    try {
      check_cuda(cudaSetDevice(its_->device));
      check_cuda(
          cudaStreamCreateWithFlags(&its_->stream, cudaStreamNonBlocking));
      join();
    } catch (const Error& error) {
      fail(error);
      throw;
    }
  }

  ~JoinedRank() override {
    start_end();
    wait_for_end();
  }

  [[nodiscard]] int rank() const noexcept override { return options_.rank; }
  [[nodiscard]] int world_size() const noexcept override {
    return options_.world_size;
  }

  void abort(const std::string& why) override {
    bool ends_now = false;
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        ended_ = aborted(why);
      }
      // Otherwise the operation does it: no thread may be inside NCCL.
      ends_now = !is_busy_;
    }
    if (ends_now) {
      start_end();
    }
  }

  void check() override {
    run([&] { check_state(its_->state(), others()); });
  }

  void queue_exchange(void* queue, const Call& call,
                      std::span<const Send> sends,
                      std::span<const Receive> receives) override {
    run([&] {
      issue(waiting_for(call, sends, receives),
            static_cast<cudaStream_t>(queue), sends, receives);
    });
  }

 protected:
  void exchange_with_others(const Call& call, std::span<const Send> sends,
                            std::span<const Receive> receives) override {
    const auto copies = std::exchange(copies_, {});
    run([&] {
      for (const auto& [from, to] : copies) {
        check_cuda(cudaMemcpyAsync(to.data(), from.data(), from.size(),
                                   cudaMemcpyDeviceToDevice, its_->stream));
      }
      const Waiting waiting = waiting_for(call, sends, receives);
      issue_with_heads(waiting, sends, receives);
      wait_for_stream(waiting);
      check_heads(call, sends, receives);
    });
  }

  void copy_own(std::span<const std::byte> from,
                std::span<std::byte> to) override {
    copies_.emplace_back(from, to);
  }

  std::span<std::byte> scratch(std::size_t bytes) override {
    std::byte* start = nullptr;
    run([&] { start = its_->grow(its_->scratch, bytes); });
    return {start, bytes};
  }

  void add_terms(std::span<const float> terms, std::span<float> sum) override {
    run([&] {
      const std::span host(reinterpret_cast<float*>(its_->grow_pinned(
                               terms.size_bytes() + sum.size_bytes())),
                           terms.size() + sum.size());
      const std::span host_sum = host.last(sum.size());
      check_cuda(cudaMemcpyAsync(host.data(), terms.data(), terms.size_bytes(),
                                 cudaMemcpyDeviceToHost, its_->stream));
      check_cuda(cudaStreamSynchronize(its_->stream));
      Communicator::add_terms(host.first(terms.size()), host_sum);
      check_cuda(cudaMemcpyAsync(sum.data(), host_sum.data(), sum.size_bytes(),
                                 cudaMemcpyHostToDevice, its_->stream));
      check_cuda(cudaStreamSynchronize(its_->stream));
    });
  }

 private:
  /// What an operation waits for.
  struct Waiting {
    Call call;
    std::vector<int> peers;
  };

  /// Runs what calls NCCL or CUDA, unless the communicator has ended. What
  /// fails ends it.
  template <typename Function>
  void run(Function function) {
    {
      const std::lock_guard lock(mutex_);
      check_locked();
      is_busy_ = true;
    }
    try {
      check_cuda(cudaSetDevice(its_->device));
      function();
      const std::lock_guard lock(mutex_);
      check_locked();  // abort has left the end to us
      is_busy_ = false;
    } catch (const Error& error) {
      fail(error);
      throw;
    } catch (...) {
      fail(Error(Errc::internal, kCommunicatorPlace, "it was cut short"));
      throw;
    }
  }

  [[nodiscard]] static bool is_past(TimePoint time) {
    return SteadyTime::now() >= time;
  }

  void check_locked() const {
    if (ended_) {
      throw *ended_;
    }
  }

  void fail(const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) {
        ended_ = error;
      }
      is_busy_ = false;
    }
    start_end();
    wait_for_end();
  }

  /// Another thread ends NCCL's part: it may hang.
  void start_end() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_ending_, true)) {
      patience_ends_ = SteadyTime::now() + options_.abort_patience;
      std::thread([its = its_, is_clean = !ended_,
                   patience = options_.abort_patience] {
        its->end(is_clean, patience);
      }).detach();
    }
  }

  void wait_for_end() {
    std::unique_lock lock(its_->mutex);
    if (is_left_behind_ || its_->changed.wait_until(lock, patience_ends_, [&] {
          return its_->has_ended;
        })) {
      return;
    }
    is_left_behind_ = true;
    lock.unlock();
    if (options_.on_hanging_abort) {
      options_.on_hanging_abort();
    }
  }

  /// Returns when all ranks have come.
  void join() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId id;
    std::memcpy(&id, options_.id.data(), sizeof(id));
    const ncclResult_t result = its_->library.comm_init_rank_config(
        &its_->comm, options_.world_size, id, options_.rank, &config);
    settle({{.tag = 0, .deadline = options_.deadline}, others()}, result);
    options_.on_wait = {};
  }

  [[nodiscard]] std::vector<int> others() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (rank != options_.rank) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

  /// Waits until NCCL has taken the calls so far.
  void settle(const Waiting& waiting, ncclResult_t result) {
    Pause pause;
    while (result == ncclInProgress) {
      const bool is_late = is_past(waiting.call.deadline);
      pause();
      result = its_->state();
      if (result == ncclInProgress) {
        check_waiting(waiting, is_late);
        if (options_.on_wait) {
          options_.on_wait();
        }
      }
    }
    check_state(result, waiting.peers);
  }

  void wait_for_stream(const Waiting& waiting) {
    Pause pause;
    while (true) {
      const bool is_late = is_past(waiting.call.deadline);
      const cudaError_t status = cudaStreamQuery(its_->stream);
      // An aborted exchange lets the stream run on over garbage.
      check_state(its_->state(), waiting.peers);
      if (status == cudaSuccess) {
        return;
      }
      if (status != cudaErrorNotReady) {
        check_cuda(status);
      }
      check_waiting(waiting, is_late);
      pause();
    }
  }

  /// is_late: the deadline was over before the last look.
  void check_waiting(const Waiting& waiting, bool is_late) {
    {
      const std::lock_guard lock(mutex_);
      check_locked();
    }
    if (is_late) {
      throw peers_late(waiting.peers, waiting.call.tag);
    }
  }

  void check_state(ncclResult_t result, const std::vector<int>& peers) const {
    if (result == ncclSuccess || result == ncclInProgress) {
      return;
    }
    const char* const last = its_->library.get_last_error(its_->comm);
    std::string message =
        std::string("NCCL says: ") + its_->library.get_error_string(result);
    if (last != nullptr && *last != '\0') {
      message += std::string(", ") + last;
    }
    switch (result) {
      case ncclUnhandledCudaError:
        // NCCL takes memory of its own.
        throw Error(message.find("out of memory") == std::string::npos
                        ? Errc::device_lost
                        : Errc::device_full,
                    kCommunicatorPlace, message);
      case ncclInvalidUsage:
      case ncclInvalidArgument:
        throw Error(Errc::unsupported, kCommunicatorPlace, message);
      case ncclInternalError:
        throw Error(Errc::internal, kCommunicatorPlace, message);
      default:
        throw Error(Errc::unreachable, kCommunicatorPlace,
                    name_ranks(peers) + " failed: " + message);
    }
  }

  [[nodiscard]] static Waiting waiting_for(const Call& call,
                                           std::span<const Send> sends,
                                           std::span<const Receive> receives) {
    Waiting waiting{.call = call, .peers = {}};
    for (const Send& send : sends) {
      waiting.peers.push_back(send.to);
    }
    for (const Receive& receive : receives) {
      waiting.peers.push_back(receive.from);
    }
    return waiting;
  }

  /// Queues all messages on a stream.
  void issue(const Waiting& waiting, cudaStream_t stream,
             std::span<const Send> sends, std::span<const Receive> receives) {
    const NcclLibrary& nccl = its_->library;
    ncclResult_t result = nccl.group_start();
    const auto add = [&](ncclResult_t next) {
      if (result == ncclSuccess || result == ncclInProgress) {
        result = next;
      }
    };
    for (const Send& send : sends) {
      add(nccl.send(send.bytes.data(), send.bytes.size(), ncclUint8, send.to,
                    its_->comm, stream));
    }
    for (const Receive& receive : receives) {
      add(nccl.receive(receive.bytes.data(), receive.bytes.size(), ncclUint8,
                       receive.from, its_->comm, stream));
    }
    add(nccl.group_end());
    // Before that its work is not on the stream.
    settle(waiting, result);
  }

  /// Queues all messages, each behind its head, and the way of the heads to the
  /// host and back.
  void issue_with_heads(const Waiting& waiting, std::span<const Send> sends,
                        std::span<const Receive> receives) {
    const std::size_t count = sends.size() + receives.size();
    if (count == 0) {
      return;
    }
    const std::size_t bytes = count * sizeof(NcclHead);
    auto* const pinned = reinterpret_cast<NcclHead*>(its_->grow_pinned(bytes));
    auto* const heads =
        reinterpret_cast<NcclHead*>(its_->grow(its_->heads, bytes));
    const std::span given(heads, sends.size());
    const std::span got(heads + sends.size(), receives.size());
    std::vector<Send> all_sends;
    for (std::size_t i = 0; i < sends.size(); ++i) {
      pinned[i] = {waiting.call.tag, sends[i].bytes.size()};
      all_sends.push_back({sends[i].to, std::as_bytes(given.subspan(i, 1))});
      all_sends.push_back(sends[i]);
    }
    std::vector<Receive> all_receives;
    for (std::size_t i = 0; i < receives.size(); ++i) {
      all_receives.push_back(
          {receives[i].from, std::as_writable_bytes(got.subspan(i, 1))});
      all_receives.push_back(receives[i]);
    }
    if (!given.empty()) {
      check_cuda(cudaMemcpyAsync(given.data(), pinned, given.size_bytes(),
                                 cudaMemcpyHostToDevice, its_->stream));
    }
    issue(waiting, its_->stream, all_sends, all_receives);
    if (!got.empty()) {
      check_cuda(cudaMemcpyAsync(pinned + given.size(), got.data(),
                                 got.size_bytes(), cudaMemcpyDeviceToHost,
                                 its_->stream));
    }
  }

  void check_heads(const Call& call, std::span<const Send> sends,
                   std::span<const Receive> receives) const {
    const auto* const heads =
        reinterpret_cast<const NcclHead*>(its_->pinned.start) + sends.size();
    for (std::size_t i = 0; i < receives.size(); ++i) {
      const MessageHead got{heads[i].tag, heads[i].bytes};
      const MessageHead expected{call.tag, receives[i].bytes.size()};
      if (got != expected) {
        throw disagreement(receives[i].from, got, expected);
      }
    }
  }

  NcclOptions options_;
  std::shared_ptr<NcclRank> its_;
  std::vector<std::pair<std::span<const std::byte>, std::span<std::byte>>>
      copies_;  ///< within this rank's memory, for the next exchange
  bool is_left_behind_ = false;  ///< NCCL did not let go

  std::mutex mutex_;  ///< of what follows
  std::optional<Error> ended_;
  bool is_busy_ = false;  ///< a thread may be inside NCCL or CUDA
  bool is_ending_ = false;
  TimePoint patience_ends_;  ///< once it is ending
};

}  // namespace

NcclId make_nccl_id() {
  const NcclLibrary library = load_nccl();
  ncclUniqueId id;
  const ncclResult_t result = library.get_unique_id(&id);
  require(result == ncclSuccess, Errc::unreachable, kCommunicatorPlace,
          std::string("NCCL: ") + library.get_error_string(result));
  NcclId bytes;
  std::memcpy(bytes.data(), &id, sizeof(id));
  return bytes;
}

std::string nccl_version() {
  int version = 0;
  load_nccl().get_version(&version);
  return std::to_string(version / 10'000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::unique_ptr<NcclCommunicator> make_nccl_communicator(NcclOptions options) {
  require(options.world_size >= 1 && options.rank >= 0 &&
              options.rank < options.world_size,
          Errc::invalid_argument, kCommunicatorPlace,
          "no such rank: got " + std::to_string(options.rank) + " of " +
              std::to_string(options.world_size));
  return std::make_unique<JoinedRank>(std::move(options));
}

}  // namespace troupe::net
