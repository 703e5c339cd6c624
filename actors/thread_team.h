#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/shard_context.h"

namespace troupe::actors {

/// The shares of the next pass after one in which ranks with these shares
/// computed for so many seconds. The same, where shares by measured speed would
/// save less than a twenty-fifth; else half way to those, each at least a
/// twentieth of an equal one. Pure.
[[nodiscard]] std::vector<double> next_shares(
    const std::vector<double>& shares, const std::vector<double>& seconds);

/// A worker of the CPU whose passes are computed by several groups of threads:
/// each rank has some of the tokens, and what attention reads of all of them
/// lies in memory that the ranks share, so nothing is copied.
///
/// How many tokens a rank has follows from how fast it was in the passes
/// before. That decides no byte: ranks begin at multiples of
/// kernels::kRowBlock. Thread: that of the lead's context.
class ThreadTeam final : public ShardTeam {
 public:
  /// lead: the worker's context; it must outlive the team. Each rank gets a
  /// context with an equal part of its threads, at least one. Errors: those of
  /// ThreadPool.
  ThreadTeam(ExecContext& lead, int ranks);
  ~ThreadTeam() override;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  void run(const Pass& pass) override;

  /// The share of the tokens that each rank has in the next pass; they sum up
  /// to 1.
  [[nodiscard]] const std::vector<double>& shares() const noexcept {
    return shares_;
  }
  /// From here on shares stay as they are given, for tests. Each above 0.
  void fix_shares(std::vector<double> shares);

 private:
  class Rank;
  /// Memory that all ranks get for one call of `share`.
  struct Slot {
    Tensor memory;  // u8
    std::int64_t generation = -1;
  };

  /// Runs the pass on a rank. An error there ends the pass of the other ranks.
  void compute(Rank& rank, const Pass& pass) noexcept;
  void serve(Rank& rank);
  void end_threads() noexcept;
  /// Errors: as ShardContext::meet.
  void meet(Rank& rank);
  [[nodiscard]] Tensor share(Rank& rank, const Shape& shape, DType dtype);
  [[nodiscard]] RowRange rows_of(int rank, std::int64_t rows) const;
  void balance();

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<double> shares_;
  bool balances_ = true;

  // 32 bits wide: what a futex takes.
  std::atomic<std::uint32_t> round_{0};       ///< of `run`
  std::atomic<std::uint32_t> unfinished_{0};  ///< members in this round
  std::atomic<bool> stop_{false};
  const Pass* pass_ = nullptr;

  std::atomic<std::uint32_t> meeting_{0};
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<bool> broken_{false};

  std::mutex mutex_;  ///< of what follows
  /// Two generations: of one all ranks may still read while they write the
  /// next.
  std::vector<Slot> slots_[2];
  std::exception_ptr error_;
};

}  // namespace troupe::actors
