#pragma once

#include <memory>
#include <span>
#include <vector>

#include "actors/rank_team.h"

namespace troupe::actors {

/// A worker of several GPUs: each rank has some of the tokens, and on its own
/// device a copy of what attention reads of all of them. At a meeting a rank
/// copies the rows that others wrote from their devices. The host does not wait
/// for a device before the end of a pass. All ranks have equal shares: their
/// threads only queue, so the time that a thread takes says nothing.
///
/// A pass reads what the lead queued before it, on any rank. When `run`
/// returns, the other ranks' devices have done their part; the lead's queue may
/// still be at it.
class DeviceTeam final : public RankTeam {
 public:
  /// lead: the worker's context on a GPU, which is rank 0; it must outlive the
  /// team. others: the device of each other rank. A device may have several
  /// ranks, which is of use to tests alone. options: of their contexts. Errors:
  /// as make_device_backend, and those of ThreadPool.
  DeviceTeam(ExecContext& lead, std::span<const Device> others,
             const DeviceOptions& options);
  ~DeviceTeam() override;

  /// Errors: as ShardTeam::run; Errc::device_lost names the device that is
  /// lost, whichever rank saw it first.
  void run(const Pass& pass) override;
  [[nodiscard]] std::vector<Device> other_devices() const override;

 private:
  using Contexts = std::vector<std::shared_ptr<ExecContext>>;
  explicit DeviceTeam(Contexts contexts);
  /// Returns when no device of the team has work left. Errors: of the first
  /// device that is lost, by its name.
  void end_queues() const;

  Contexts contexts_;  ///< of each rank
};

}  // namespace troupe::actors
