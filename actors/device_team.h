#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "actors/rank_team.h"
#include "kernels/core/clock.h"
#include "kernels/core/error.h"
#include "net/nccl.h"

namespace troupe::actors {

class DeviceRank;

/// A worker of several GPUs: each rank has some of the tokens, and on its own
/// device a copy of what attention reads of all of them. At a meeting a rank
/// copies the rows and columns that it reads from the others' devices. A rank's
/// host waits for its device where it is some meetings ahead of it, and at the
/// end of a pass. All ranks have equal shares: their threads only queue, so
/// the time that a thread takes says nothing.
///
/// With GpuExchange::nccl, a rank gets what it reads as messages. The ranks
/// join a group before the first pass, and again after a pass that failed.
///
/// A pass reads what the lead queued before it, on any rank. When `run`
/// returns, all devices have done their part.
///
/// A device whose queue stands still is lost, as one that fails: its rank
/// leaves. A queue stands still if its host waits for it longer than
/// `Patience` says, while no other queue holds it up. So the deadline lies far
/// below the lease of a worker (LeaseOptions). What the driver holds for such a
/// device is never released. A call of the driver that does not return is
/// waited for.
class DeviceTeam final : public RankTeam {
 public:
  /// How long a queue may stand still.
  struct Patience {
    Duration least = std::chrono::milliseconds(800);
    /// Or so many times the longest wait that ended well, after the first pass.
    int factor = 10;
    /// Before the first pass has ended.
    Duration unmeasured = std::chrono::seconds(10);
    /// After a pass that failed: how long a queue may stand still before it
    /// counts as lost. As long as in a pass if that is longer, unless the pass
    /// failed because a queue stood still for that long.
    Duration grace = std::chrono::milliseconds(300);
  };

  /// lead: the worker's context on a GPU, which is rank 0; it must outlive the
  /// team. others: the device of each other rank. A device may have several
  /// ranks, which is of use to tests alone, and not with NCCL. options: of
  /// their contexts. Errors: as make_device_backend, and those of ThreadPool.
  DeviceTeam(ExecContext& lead, std::span<const Device> others,
             const DeviceOptions& options,
             AttentionPlan plan = AttentionPlan::gather,
             GpuExchange exchange = GpuExchange::peer);
  ~DeviceTeam() override;

  /// Errors: as ShardTeam::run; Errc::device_lost names the device that is
  /// lost, whichever rank saw it first; those of make_nccl_communicator. If the
  /// device is not the lead's, its rank leaves the team, and a line in the log
  /// says who computes on.
  void run(const Pass& pass) override;
  [[nodiscard]] bool can_run_again() override {
    return std::exchange(can_run_again_, false);
  }
  [[nodiscard]] std::vector<Device> other_devices() const override;

  /// Between passes; for tests.
  void set_patience(const Patience& patience);

 private:
  void interrupt() noexcept override;
  /// Makes the ranks a group of NCCL. Errors: those of make_nccl_communicator.
  void join();
  /// Runs the pass on all ranks. Errors: as ShardTeam::run.
  void compute(const Pass& pass);
  /// An error that names the device of a rank.
  struct Loss {
    std::size_t rank = 0;
    Error cause;
  };
  /// Returns when no device of the team has work left, with those that are
  /// lost, in the order of ranks. `patience`: with a queue that stands still.
  [[nodiscard]] std::vector<Loss> end_queues(Duration patience) const;
  /// Removes ranks, none of which is the lead's.
  void leave_out(const std::vector<Loss>& lost);

  [[nodiscard]] DeviceRank& at(std::size_t rank) const;

  bool can_run_again_ = false;
  GpuExchange exchange_;
  bool is_joined_ = false;  ///< the ranks are a group of NCCL
};

}  // namespace troupe::actors
