#include "actors/device_team.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string>
#include <thread>

#include "kernels/copy.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

using SteadyTime = std::chrono::steady_clock;

/// For ranks to join a group of NCCL, and for it to take an exchange.
constexpr auto kPatience = std::chrono::seconds(30);
/// For NCCL to let go of memory.
constexpr auto kPatienceOfAbort = std::chrono::seconds(2);

/// A tensor that ranks exchange.
struct Exchanged {
  Tensor all;
  std::vector<std::vector<SharedBlock>> taken;  ///< from each rank
  std::vector<std::vector<SharedBlock>> given;  ///< to each rank
};

/// Queues an exchange through NCCL. Each block is one message; elements that do
/// not lie side by side are packed.
void exchange_messages(ExecContext& ctx, net::NcclCommunicator& group,
                       std::span<const Exchanged> exchanged) {
  struct Message {
    Tensor rows;
    RowRange columns;
    Tensor packed;

    [[nodiscard]] bool is_packed() const {
      return packed.bytes().data() != rows.bytes().data();
    }
  };
  std::vector<Message> messages;  // they hold what is queued
  const auto each =
      [&](std::vector<std::vector<SharedBlock>> Exchanged::*blocks,
          const auto& fn) {
        for (const Exchanged& one : exchanged) {
          for (std::size_t peer = 0; peer < (one.*blocks).size(); ++peer) {
            for (const auto& [range, columns] : (one.*blocks)[peer]) {
              const Tensor rows = one.all.slice(range.begin, range.end);
              const bool is_dense =
                  rows.num_elements() == rows.dim(0) * columns.size();
              messages.push_back({rows, columns,
                                  is_dense
                                      ? rows
                                      : ctx.empty({rows.dim(0), columns.size()},
                                                  rows.dtype())});
              fn(static_cast<int>(peer), messages.back());
            }
          }
        }
      };
  std::vector<net::Communicator::Send> sends;
  std::vector<net::Communicator::Receive> receives;
  each(&Exchanged::given, [&](int peer, Message& message) {
    if (message.is_packed()) {
      kernels::copy_columns(ctx, message.rows, message.columns.begin,
                            message.packed, 0, message.columns.size());
    }
    sends.push_back({peer, message.packed.bytes()});
  });
  const std::size_t num_sent = messages.size();
  each(&Exchanged::taken, [&](int peer, Message& message) {
    receives.push_back({peer, message.packed.bytes()});
  });
  group.queue_exchange(ctx.device_backend()->queue(),
                       {.tag = 0, .deadline = SteadyTime::now() + kPatience},
                       sends, receives);
  for (Message& message : std::span(messages).subspan(num_sent)) {
    if (message.is_packed()) {
      kernels::copy_columns(ctx, message.packed, 0, message.rows,
                            message.columns.begin, message.columns.size());
    }
  }
}

constexpr const char* kStands = "its queue stands still";
/// For queues to end once the job is stopped.
constexpr Duration kGraceOfAStop = std::chrono::seconds(1);

/// Time that passes from poll to poll. Where the host itself stood still in
/// between, no device is blamed for it.
class PolledTime {
 public:
  void begin() {
    last_ = SteadyTime::now();
    sum_ = {};
  }
  /// Whether `marks` has stayed the same for longer than that.
  [[nodiscard]] bool stands(std::uint32_t marks, Duration most) {
    if (marks != std::exchange(marks_, marks)) {
      begin();
    }
    return poll() > most;
  }
  /// Lets other threads go on until the next poll. A long wait does not keep a
  /// core from those that queue work.
  void pause() const {
    constexpr Duration kBusy = std::chrono::microseconds(200);
    if (sum_ < kBusy) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  Duration poll() {
    constexpr Duration kMostOfAPoll = std::chrono::milliseconds(10);
    const TimePoint now = SteadyTime::now();
    sum_ += std::min(now - last_, kMostOfAPoll);
    last_ = now;
    return sum_;
  }

 private:
  TimePoint last_{};
  Duration sum_{};
  std::uint32_t marks_ = 0;  ///< those of the last poll
};

/// What the ranks of a team know of how long they wait. Thread: any.
class Waits {
 public:
  DeviceTeam::Patience patience;  ///< between passes

  /// A wait that ended well. Those of the first pass are longer: it makes
  /// what later ones use again.
  void note(Duration wait) {
    if (is_measured_) {
      raise(wait);
    }
  }
  void note_pass() { is_measured_ = true; }
  /// A queue stands still.
  void alarm() { is_alarmed_ = true; }
  [[nodiscard]] bool take_alarm() { return is_alarmed_.exchange(false); }
  /// The alarm was false: the next one comes after twice the time.
  void be_patient() { raise(2 * deadline() / patience.factor); }
  /// The longest that a queue may stand still in a wait.
  [[nodiscard]] Duration deadline() const {
    return std::max(is_measured_ ? patience.least : patience.unmeasured,
                    patience.factor * longest_.load());
  }
  /// The same once a pass has failed. `is_alarmed`: because a queue stood still
  /// for as long as the deadline.
  [[nodiscard]] Duration grace(bool is_alarmed) const {
    return is_alarmed ? patience.grace : std::max(patience.grace, deadline());
  }

 private:
  void raise(Duration wait) {
    Duration longest = longest_;
    while (wait > longest && !longest_.compare_exchange_weak(longest, wait)) {
    }
  }

  std::atomic<Duration> longest_ = Duration{};
  std::atomic<bool> is_measured_ = false;
  std::atomic<bool> is_alarmed_ = false;
};

}  // namespace

/// A rank's thread looks at how long its queue stands still while it waits for
/// the queue. All threads meet, so the first thread to wait is that of the
/// queue which holds up the other queues.
///
/// A rank's tensors may be used again two meetings later. Before a rank comes
/// to meeting g + 1, it has queued its copies of generation g, so its event of
/// meeting g + 1 stands behind these copies. Every rank's queue waits at g + 1
/// for the events of all other ranks. So a rank writes or releases tensors of
/// generation g + 2 only behind all copies of generation g. The same holds for
/// the host's events and tensors: other ranks read those of generation g before
/// they come to g + 1.
class DeviceRank final : public RankTeam::Rank {
 public:
  DeviceRank(std::shared_ptr<ExecContext> ctx, std::shared_ptr<Waits> waits)
      : Rank(std::move(ctx)),
        waits_(std::move(waits)),
        watch_(backend().watch([this] { on_wait(); })) {}
  DeviceRank(const DeviceRank&) = delete;
  DeviceRank& operator=(const DeviceRank&) = delete;
  ~DeviceRank() override {
    backend().forget_recordings();  // they call this rank
    backend().watch({});
  }

  using Rank::ctx;
  [[nodiscard]] DeviceBackend& backend() const {
    return *ctx().device_backend();
  }
  [[nodiscard]] QueueWatch& watch() const { return *watch_; }
  [[nodiscard]] Waits& waits() const { return *waits_; }

  /// Before the mark of the lead that all ranks' queues wait for first.
  void begin_pass() { base_ = watch_->marks_set() - (rank() == 0 ? 0 : 1); }
  /// Marks of this pass that have passed. A queue whose number is the least of
  /// all waits for no other.
  [[nodiscard]] std::int32_t progress() const {
    return static_cast<std::int32_t>(watch_->marks_passed() - base_);
  }
  /// Whether the lead's queue has done what came before the pass.
  [[nodiscard]] bool has_begun() const {
    return static_cast<const DeviceRank&>(peer(0)).progress() > 0;
  }

  /// The rank's part of a pass.
  void compute(const ShardTeam::Pass& pass) {
    const WhileTrue computes(is_computing_);
    still_.begin();
    pass(ctx(), *this);
    for (std::int64_t ago = kAhead; ago > 0; --ago) {
      if (const auto& event = event_of(generation() + kAhead - ago)) {
        await(*event);
      }
    }
    await(*backend().mark());
    if (rank() > 0) {
      ctx().synchronize();  // lets go what was kept
    }
  }

  /// Through which it exchanges; null: by copies. Between passes.
  void set_group(std::unique_ptr<net::NcclCommunicator> group) {
    group_ = std::move(group);
  }
  [[nodiscard]] net::NcclCommunicator* group() const { return group_.get(); }
  /// Errors: those of make_nccl_communicator.
  [[nodiscard]] std::unique_ptr<net::NcclCommunicator> join(
      const net::NcclId& id) {
    return net::make_nccl_communicator(
        {.rank = rank(),
         .world_size = world_size(),
         .id = id,
         .device = ctx().device().index,
         .deadline = SteadyTime::now() + kPatience,
         .on_wait = [this] { check_team(); },
         .abort_patience = kPatienceOfAbort,
         .on_hanging_abort = [this] { is_held_by_nccl_ = true; }});
  }
  /// NCCL has not let go of the device's memory, and may write there.
  [[nodiscard]] bool is_held_by_nccl() const { return is_held_by_nccl_; }

  [[nodiscard]] Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& of_rank) override {
    const std::int64_t bytes =
        shape.num_elements() * static_cast<std::int64_t>(size_of(dtype));
    const std::size_t index = begin_share();
    std::vector<Tensor>& memory = memory_[phase()];
    if (index == memory.size()) {
      memory.emplace_back();
    }
    if (memory[index].empty() || memory[index].num_elements() < bytes) {
      memory[index] = {};
      memory[index] = ctx().empty({bytes}, DType::u8);
    }
    exchanged_[phase()].resize(index + 1);
    Exchanged& one = exchanged_[phase()][index];
    one.all = {memory[index].owner(), shape, dtype, ctx().device()};
    one.taken.assign(static_cast<std::size_t>(world_size()), {});
    one.given.assign(static_cast<std::size_t>(world_size()), {});
    const SharedBlocks mine = of_rank(rank());
    for (int peer = 0; peer < world_size(); ++peer) {
      if (peer != rank()) {
        const SharedBlocks its = of_rank(peer);
        one.taken[static_cast<std::size_t>(peer)] = common_blocks(its, mine);
        one.given[static_cast<std::size_t>(peer)] = common_blocks(mine, its);
      }
    }
    return one.all;
  }

 protected:
  /// A playback calls `fn`, but not `share`.
  void apart(const std::function<void()>& fn) override {
    exchanged_[phase()].resize(num_shared());
    ctx().device_backend()->between(
        [this, fn, exchanged = exchanged_[phase()]] {
          exchanged_[phase()] = exchanged;
          fn();
        });
  }

  void leave() override {
    std::unique_ptr<DeviceEvent>& event = event_of(generation());
    if (event) {
      await(*event);
    }
    event = backend().mark();
  }

  /// An event that is not recorded yet holds up nobody, so the waits are queued
  /// once all ranks have come.
  void take() override {
    // Ranks begin with different peers, so that all links are used.
    for (int i = 1; i < world_size(); ++i) {
      const int p = (rank() + i) % world_size();
      const auto& peer = static_cast<const DeviceRank&>(this->peer(p));
      backend().wait_for(*peer.event_of(generation()));
      if (group_) {
        continue;
      }
      for (std::size_t s = 0; s < exchanged_[phase()].size(); ++s) {
        const Exchanged& mine = exchanged_[phase()][s];
        const Tensor& its = peer.exchanged_[phase()][s].all;
        for (const auto& [rows, columns] :
             mine.taken[static_cast<std::size_t>(p)]) {
          Tensor to = mine.all.slice(rows.begin, rows.end);
          kernels::copy_columns(ctx(), its.slice(rows.begin, rows.end),
                                columns.begin, to, columns.begin,
                                columns.size());
        }
      }
    }
    if (group_) {
      exchange_messages(ctx(), *group_, exchanged_[phase()]);
    }
  }

 private:
  /// Meetings that a rank's host may be ahead of its device: fewer launches
  /// than a queue holds, so no launch waits for a queue that stands still.
  static constexpr std::int64_t kAhead = 8;
  static_assert(kAhead % 2 == 0, "others read an event one meeting later");

  struct WhileTrue {
    bool& flag;
    explicit WhileTrue(bool& set) : flag(set) { flag = true; }
    ~WhileTrue() { flag = false; }
    WhileTrue(const WhileTrue&) = delete;
    WhileTrue& operator=(const WhileTrue&) = delete;
  };

  [[nodiscard]] std::unique_ptr<DeviceEvent>& event_of(
      std::int64_t meeting) const {
    return events_[meeting % kAhead];
  }

  /// Returns when an event of this rank has passed.
  void await(DeviceEvent& event) {
    still_.begin();
    while (!event.has_passed()) {
      on_wait();
      still_.pause();
    }
    waits_->note(still_.poll());
  }
  /// Errors: Errc::interrupted, also where the queue stands still.
  void on_wait() {
    if (!is_computing_) {
      return;
    }
    check_team();
    if (!has_begun()) {
      still_.begin();
    }
    if (still_.stands(watch_->marks_passed(), waits_->deadline())) {
      waits_->alarm();
      throw Error(Errc::interrupted, "shards", kStands);
    }
  }

  std::shared_ptr<Waits> waits_;
  std::shared_ptr<QueueWatch> watch_;
  std::uint32_t base_ = 0;     ///< marks before this pass
  bool is_computing_ = false;  ///< on the rank's thread
  PolledTime still_;
  std::atomic<bool> is_held_by_nccl_ = false;
  std::unique_ptr<net::NcclCommunicator> group_;
  // Of the last two meetings.
  std::vector<Tensor> memory_[2];  ///< u8, as large as any pass needed
  std::vector<Exchanged> exchanged_[2];
  /// Of the last meetings. Other ranks read them.
  mutable std::unique_ptr<DeviceEvent> events_[kAhead];
};

namespace {

std::vector<std::unique_ptr<RankTeam::Rank>> make_ranks(
    ExecContext& lead, std::span<const Device> others,
    const DeviceOptions& options) {
  const auto waits = std::make_shared<Waits>();
  std::vector<std::unique_ptr<RankTeam::Rank>> ranks;
  ranks.push_back(std::make_unique<DeviceRank>(
      std::shared_ptr<ExecContext>(std::shared_ptr<void>(), &lead), waits));
  for (const Device& device : others) {
    ranks.push_back(std::make_unique<DeviceRank>(
        std::make_shared<ExecContext>(1, device, options), waits));
  }
  return ranks;
}

}  // namespace

DeviceTeam::DeviceTeam(ExecContext& lead, std::span<const Device> others,
                       const DeviceOptions& options, AttentionPlan plan,
                       GpuExchange exchange)
    : RankTeam(make_ranks(lead, others, options), plan, false),
      exchange_(exchange) {}

// The lead's queue may still read tensors of others.
DeviceTeam::~DeviceTeam() {
  (void)end_queues(at(0).waits().patience.unmeasured);
}

DeviceRank& DeviceTeam::at(std::size_t rank) const {
  return static_cast<DeviceRank&>(*ranks()[rank]);
}

void DeviceTeam::set_patience(const Patience& patience) {
  at(0).waits().patience = patience;
}

std::vector<Device> DeviceTeam::other_devices() const {
  std::vector<Device> devices;
  for (std::size_t r = 1; r < ranks().size(); ++r) {
    devices.push_back(at(r).ctx().device());
  }
  return devices;
}

void DeviceTeam::interrupt() noexcept {
  for (std::size_t r = 0; r < ranks().size(); ++r) {
    if (net::NcclCommunicator* const group = at(r).group()) {
      group->abort("another rank failed");
    }
  }
}

void DeviceTeam::join() {
  // Other threads may read the ranks' groups until all have joined.
  std::vector<std::unique_ptr<net::NcclCommunicator>> group(ranks().size());
  const net::NcclId id = net::make_nccl_id();
  try {
    RankTeam::run([&](ExecContext& /*ctx*/, ShardContext& shard) {
      group[static_cast<std::size_t>(shard.rank())] =
          static_cast<DeviceRank&>(shard).join(id);
    });
  } catch (...) {
    // Otherwise each communicator would wait for the other ranks to leave.
    for (const auto& one : group) {
      if (one) {
        one->abort("another rank did not join");
      }
    }
    throw;
  }
  for (std::size_t r = 0; r < ranks().size(); ++r) {
    at(r).set_group(std::move(group[r]));
  }
  is_joined_ = true;
}

void DeviceTeam::compute(const Pass& pass) {
  const auto queued = at(0).backend().mark();
  RankTeam::run([&](ExecContext& ctx, ShardContext& shard) {
    auto& rank = static_cast<DeviceRank&>(shard);
    if (shard.rank() > 0) {
      ctx.device_backend()->wait_for(*queued);
    }
    rank.compute(pass);
    if (rank.group() != nullptr) {
      rank.group()->check();
    }
  });
}

void DeviceTeam::run(const Pass& pass) {
  can_run_again_ = false;
  Waits& waits = at(0).waits();
  for (std::size_t r = 0; r < ranks().size(); ++r) {
    at(r).begin_pass();
  }
  try {
    if (exchange_ == GpuExchange::nccl && !is_joined_ && ranks().size() > 1) {
      join();
    }
    compute(pass);
    // Without a meeting the lead computed alone: its marks are the first and
    // the last one.
    if (at(0).progress() > 2) {
      waits.note_pass();
    }
  } catch (...) {
    // Exchanges whose ranks failed would never end.
    interrupt();
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      at(r).set_group(nullptr);
    }
    is_joined_ = false;
    const bool is_stopped = at(0).ctx().stop_requested();
    const bool was_slow = waits.take_alarm();
    const std::vector<Loss> lost =
        end_queues(is_stopped ? kGraceOfAStop : waits.grace(was_slow));
    if (lost.empty()) {
      if (was_slow) {
        waits.be_patient();
        log_message(LogLevel::warning,
                    "GPUs are slow: the pass is computed again");
      }
      can_run_again_ = was_slow && !is_stopped;
      throw;
    }
    if (lost[0].rank > 0) {
      leave_out(lost);
      can_run_again_ = !is_stopped;
    }
    if (is_stopped) {
      throw;
    }
    throw Error(lost[0].cause);
  }
}

std::vector<DeviceTeam::Loss> DeviceTeam::end_queues(Duration patience) const {
  struct Open {
    std::size_t rank;
    std::unique_ptr<DeviceEvent> end;
  };
  std::vector<Open> open;
  std::vector<Loss> lost;
  const auto lose = [&](std::size_t rank, const std::string& cause) {
    // Others' queues may wait for it for ever.
    at(rank).watch().release_waiters();
    lost.push_back(
        {rank,
         {Errc::device_lost, to_string(at(rank).ctx().device()), cause,
          "see nvidia-smi and the kernel log (Xid) for the device"}});
  };
  const auto has_ended = [&](Open& one) {
    try {
      if (!one.end) {
        one.end = at(one.rank).backend().mark();
      }
      return one.end->has_passed();
    } catch (const Error& error) {
      if (error.code() == Errc::device_lost) {
        lose(one.rank, error.message());
      }
      return true;
    }
  };
  const auto marks = [&] {
    std::uint32_t sum = 0;
    for (std::size_t r = 0; r < ranks().size(); ++r) {
      sum += at(r).watch().marks_passed();
    }
    return sum;
  };
  for (std::size_t r = 0; r < ranks().size(); ++r) {
    if (at(r).is_held_by_nccl()) {
      lose(r, "NCCL does not let go of its memory");
      at(r).watch().abandon();
    } else {
      open.push_back({r, nullptr});
    }
  }
  PolledTime still;
  still.begin();
  while (true) {
    const bool some_ended = std::erase_if(open, has_ended) > 0;
    if (open.empty()) {
      break;
    }
    if (some_ended) {
      still.begin();
    }
    const Duration most =
        at(0).has_begun() ? patience : at(0).waits().patience.unmeasured;
    if (still.stands(marks(), most)) {
      const auto first = std::ranges::min_element(
          open, {}, [&](const Open& one) { return at(one.rank).progress(); });
      lose(first->rank, kStands);
      at(first->rank).watch().abandon();
      open.erase(first);
      still.begin();
    }
    still.pause();
  }
  std::ranges::sort(lost, {}, &Loss::rank);
  return lost;
}

void DeviceTeam::leave_out(const std::vector<Loss>& lost) {
  for (auto loss = lost.rbegin(); loss != lost.rend(); ++loss) {
    remove(static_cast<int>(loss->rank));
  }
  std::string devices = to_string(at(0).ctx().device());
  for (const Device& device : other_devices()) {
    devices += ", " + to_string(device);
  }
  for (const Loss& loss : lost) {
    log_message(LogLevel::warning, loss.cause.place() + " is lost (" +
                                       loss.cause.message() +
                                       "): its part is computed on " + devices);
  }
}

}  // namespace troupe::actors
