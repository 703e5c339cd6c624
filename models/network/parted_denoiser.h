#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/network/denoiser.h"
#include "models/network/first_use.h"
#include "models/network/segment.h"

namespace troupe::models {

/// A network in parts. A part is read when it is first used. A part is released
/// after kPassesKept passes in a row through other parts. So a process that
/// runs one segment keeps no weights of other segments. The bits are those of
/// the whole network. Thread: as Denoiser. A part is read by the thread that
/// needs it.
class PartedDenoiser final : public Denoiser {
 public:
  /// A process that runs several segments makes far fewer passes between two
  /// through the same one.
  static constexpr std::uint64_t kPassesKept = 64;

  /// Reads the weights of one part, and returns when they are complete.
  using Read = std::function<std::shared_ptr<const Denoiser>(ExecContext&,
                                                             SegmentRange)>;

  /// info: of the whole network. cuts: part i is blocks [cuts[i], cuts[i + 1]).
  /// The first cut is 0, the last one is the number of blocks.
  /// Errors: Errc::invalid_argument for other cuts.
  PartedDenoiser(DenoiserInfo info, std::vector<int> cuts, const Read& read);

  [[nodiscard]] const DenoiserInfo& info() const override { return info_; }
  /// Each part prepares and checks the condition when it first uses it.
  [[nodiscard]] PreparedPtr prepare(
      ExecContext& ctx, const Condition& condition,
      std::span<const double> timesteps = {}) const override;
  void predict(ExecContext& ctx, ShardContext& shard, const Batch& batch,
               std::span<Tensor> outputs) const override;
  void embed(ExecContext& ctx, ShardContext& shard, const Batch& batch,
             std::span<Boundary> boundaries) const override;
  void run_blocks(ExecContext& ctx, ShardContext& shard, const Batch& batch,
                  int begin, int end,
                  std::span<Boundary> boundaries) const override;
  void finish(ExecContext& ctx, ShardContext& shard, const Batch& batch,
              std::span<const Boundary> boundaries,
              std::span<Tensor> outputs) const override;

 private:
  struct Part {
    SegmentRange blocks;
    std::unique_ptr<FirstUse<Denoiser>> network;
    std::atomic<std::uint64_t> last_pass = 0;
  };
  class Prepared;
  struct PartRows;

  /// Rank 0 reads and prepares what is missing: its context is the one that is
  /// watched.
  [[nodiscard]] PartRows rows_of(ExecContext& ctx, ShardContext& shard,
                                 std::size_t part, const Batch& batch) const;
  [[nodiscard]] PartRows read_rows(ExecContext& ctx, std::size_t part,
                                   const Batch& batch) const;
  /// Releases parts that were not used for long.
  void count_pass(std::size_t part) const;

  DenoiserInfo info_;
  /// Behind a pointer: a part cannot be moved.
  std::vector<std::unique_ptr<Part>> parts_;
  mutable std::atomic<std::uint64_t> passes_ = 0;
};

}  // namespace troupe::models
