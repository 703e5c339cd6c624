#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
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

/// The contexts that compute the passes of one: rounds, meetings, errors and
/// shares, whatever their memory. Rank 0 is on the lead's thread, each other
/// rank has a thread of its own. An error of a rank ends the pass of all; the
/// next pass begins anew.
///
/// How many tokens a rank has decides no byte: ranks begin at multiples of
/// kernels::kRowBlock. Thread: that of the lead's context.
class RankTeam : public ShardTeam {
 public:
  /// What a rank knows of the others. Its `share` is its memory's.
  class Rank : public ShardContext {
   public:
    explicit Rank(std::shared_ptr<ExecContext> ctx) : ctx_(std::move(ctx)) {}
    [[nodiscard]] int rank() const final { return index_; }
    [[nodiscard]] int world_size() const final;
    [[nodiscard]] AttentionPlan plan() const final;
    [[nodiscard]] RowRange rows_of(int rank, std::int64_t rows) const final;
    [[nodiscard]] int phase() const final {
      return static_cast<int>(generation_ % 2);
    }
    void meet() final;

   protected:
    /// Calls `fn`, which is no part of what a device records.
    virtual void apart(const std::function<void()>& fn) { fn(); }
    /// The rank has come to a meeting.
    virtual void leave() {}
    /// All ranks have come to it.
    virtual void take() {}

    [[nodiscard]] ExecContext& ctx() const { return *ctx_; }
    /// To be called where the rank waits. Errors: Errc::interrupted where
    /// another rank failed, or the lead is asked to stop.
    void check_team() const;
    /// Another rank of this team, or this one.
    [[nodiscard]] const Rank& peer(int rank) const {
      return *team_->ranks_[static_cast<std::size_t>(rank)];
    }
    /// Meetings so far. What ranks share in generation g is written by nobody
    /// in generation g + 1, when all of them may still read it.
    [[nodiscard]] std::int64_t generation() const { return generation_; }
    /// Calls of `share` since the last meeting; `begin_share` adds one.
    [[nodiscard]] std::size_t num_shared() const { return shared_; }
    [[nodiscard]] std::size_t begin_share() { return shared_++; }

   private:
    friend class RankTeam;
    std::shared_ptr<ExecContext> ctx_;
    RankTeam* team_ = nullptr;
    int index_ = 0;
    std::int64_t generation_ = 0;
    std::size_t shared_ = 0;
    double seconds_ = 0;  ///< of this pass
    double waited_ = 0;   ///< of these, for others
    bool has_left_ = false;
    std::thread thread_;  ///< none: the lead's
  };

  ~RankTeam() override;
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  void run(const Pass& pass) override;

  /// From here on shares stay as they are given, for tests. Each above 0.
  void fix_shares(std::vector<double> shares);

 protected:
  /// `balances`: shares follow how fast each rank's thread was in the passes
  /// before; otherwise they are equal. Errors: those of ThreadPool.
  RankTeam(std::vector<std::unique_ptr<Rank>> ranks, AttentionPlan plan,
           bool balances);

  /// A rank has failed: whatever other ranks wait for beside meetings is to
  /// end. Thread: any, several at once.
  virtual void interrupt() noexcept {}
  /// In their order; the first is the lead's.
  [[nodiscard]] const std::vector<std::unique_ptr<Rank>>& ranks() const {
    return ranks_;
  }
  /// This rank, which is not the lead's, has no part in later passes; those
  /// behind it move up. Its context lives as long as the team. Not to be called
  /// during a pass.
  void remove(int rank);

 private:
  /// Runs the pass on a rank. An error there ends the pass of the other ranks.
  void compute(Rank& rank, const Pass& pass) noexcept;
  void serve(Rank& rank);
  void end_threads() noexcept;
  /// Errors: as ShardContext::meet.
  void meet(Rank& rank);
  void balance();

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::unique_ptr<Rank>> left_;  ///< were removed
  std::vector<double> shares_;
  AttentionPlan plan_;
  bool balances_;

  // 32 bits wide: what a futex takes.
  std::atomic<std::uint32_t> round_{0};       ///< of `run`
  std::atomic<std::uint32_t> unfinished_{0};  ///< members in this round
  std::atomic<bool> stop_{false};
  const Pass* pass_ = nullptr;

  std::atomic<std::uint32_t> meeting_{0};
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<bool> broken_{false};

  std::mutex mutex_;  ///< of what follows
  std::exception_ptr error_;
};

}  // namespace troupe::actors
