#include "actors/rank_team.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/row_blocks.h"

namespace troupe::actors {
namespace {

using SteadyTime = std::chrono::steady_clock;

/// How long a rank polls for the others before it sleeps.
constexpr auto kPoll = std::chrono::microseconds(100);

double seconds_since(SteadyTime::time_point begin) {
  return std::chrono::duration<double>(SteadyTime::now() - begin).count();
}

/// How much of the way to its measured share a rank goes after one pass: a
/// single measurement may be wrong.
constexpr double kFollows = 0.5;
/// The least part of a pass that new shares have to save. The library compiles
/// a product for each new number of rows, which takes time.
constexpr double kWorthwhile = 0.04;
/// The least part of an equal share that a rank keeps. The speed of a rank
/// without tokens could not be measured again.
constexpr double kLeast = 0.05;

/// Returns when `value` is no longer `old`.
void wait_for_change(const std::atomic<std::uint32_t>& value,
                     std::uint32_t old) {
  const SteadyTime::time_point begin = SteadyTime::now();
  while (value.load(std::memory_order_acquire) == old) {
    if (SteadyTime::now() - begin > kPoll) {
      return value.wait(old, std::memory_order_acquire);
    }
  }
}

}  // namespace

std::vector<double> next_shares(const std::vector<double>& shares,
                                const std::vector<double>& seconds) {
  std::vector<double> speeds;
  double all = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    if (!(seconds[r] > 0)) {
      return shares;
    }
    all += speeds.emplace_back(shares[r] / seconds[r]);
  }
  // With shares by speed the pass would have taken 1 / all seconds.
  if (*std::ranges::max_element(seconds) * all < 1 + kWorthwhile) {
    return shares;
  }
  std::vector<double> next;
  double sum = 0;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const double share = shares[r] + kFollows * (speeds[r] / all - shares[r]);
    sum += next.emplace_back(
        std::max(share, kLeast / static_cast<double>(shares.size())));
  }
  for (double& share : next) {
    share /= sum;
  }
  return next;
}

int RankTeam::Rank::world_size() const {
  return static_cast<int>(team_->ranks_.size());
}

RowRange RankTeam::Rank::rows_of(int rank, std::int64_t rows) const {
  return kernels::rows_by_shares(team_->shares_, rank, rows);
}

void RankTeam::Rank::meet() {
  apart([this] { team_->meet(*this); });
}

void RankTeam::Rank::check_team() const {
  require(!team_->broken_, Errc::interrupted, "shards", "another rank failed");
  team_->ranks_[0]->ctx_->tick(0);
}

AttentionPlan RankTeam::Rank::plan() const { return team_->plan_; }

RankTeam::RankTeam(std::vector<std::unique_ptr<Rank>> ranks, AttentionPlan plan,
                   bool balances)
    : ranks_(std::move(ranks)),
      shares_(ranks_.size(), 1.0 / static_cast<double>(ranks_.size())),
      plan_(plan),
      balances_(balances) {
  const int count = static_cast<int>(ranks_.size());
  for (int r = 0; r < count; ++r) {
    Rank& rank = *ranks_[static_cast<std::size_t>(r)];
    rank.team_ = this;
    rank.index_ = r;
  }
  for (int r = 1; r < count; ++r) {
    Rank& rank = *ranks_[static_cast<std::size_t>(r)];
    try {
      rank.thread_ = std::thread([this, &rank] { serve(rank); });
    } catch (const std::system_error& error) {
      end_threads();
      throw thread_refusal(r - 1, count - 1, error);
    } catch (...) {
      end_threads();
      throw;
    }
  }
}

RankTeam::~RankTeam() { end_threads(); }

void RankTeam::end_threads() noexcept {
  stop_ = true;
  ++round_;
  round_.notify_all();
  for (const auto* ranks : {&ranks_, &left_}) {
    for (const auto& rank : *ranks) {
      if (rank->thread_.joinable()) {
        rank->thread_.join();
      }
    }
  }
}

void RankTeam::remove(int rank) {
  const auto gone = ranks_.begin() + rank;
  (*gone)->has_left_ = true;  // its thread sees it when the next pass begins
  left_.push_back(std::move(*gone));
  ranks_.erase(gone);
  const double share = shares_[static_cast<std::size_t>(rank)];
  shares_.erase(shares_.begin() + rank);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r]->index_ = static_cast<int>(r);
    shares_[r] /= 1 - share;
  }
}

void RankTeam::fix_shares(std::vector<double> shares) {
  require(shares.size() == ranks_.size() &&
              std::ranges::all_of(shares, [](double s) { return s > 0; }),
          Errc::invalid_argument, "shards", "expected a share for each rank");
  shares_ = std::move(shares);
  balances_ = false;
}

void RankTeam::meet(Rank& rank) {
  rank.check_team();
  rank.leave();
  const SteadyTime::time_point begin = SteadyTime::now();
  const std::uint32_t meeting = meeting_.load(std::memory_order_acquire);
  const auto all = static_cast<std::uint32_t>(ranks_.size());
  if (!broken_ && arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
    arrived_ = 0;
    meeting_.fetch_add(1, std::memory_order_acq_rel);
    meeting_.notify_all();
  } else if (!broken_) {
    wait_for_change(meeting_, meeting);
  }
  require(!broken_, Errc::interrupted, "shards", "another rank failed");
  rank.waited_ += seconds_since(begin);
  rank.take();
  ++rank.generation_;
  rank.shared_ = 0;
}

void RankTeam::compute(Rank& rank, const Pass& pass) noexcept {
  const SteadyTime::time_point begin = SteadyTime::now();
  rank.waited_ = 0;
  rank.shared_ = 0;
  try {
    pass(*rank.ctx_, rank);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) {
        error_ = std::current_exception();
      }
    }
    broken_ = true;
    ++meeting_;
    meeting_.notify_all();
    interrupt();
  }
  rank.seconds_ = seconds_since(begin);
}

void RankTeam::serve(Rank& rank) {
  use_one_openmp_thread();
  std::uint32_t round = 0;
  while (true) {
    wait_for_change(round_, round);
    round = round_.load(std::memory_order_acquire);
    if (stop_ || rank.has_left_) {
      return;
    }
    compute(rank, *pass_);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      unfinished_.notify_all();
    }
  }
}

void RankTeam::run(const Pass& pass) {
  // After a broken pass ranks have met unequally often. Every pass begins with
  // an even number, and so takes the same memory.
  std::int64_t generation = 0;
  for (const auto& rank : ranks_) {
    generation = std::max(generation, rank->generation_ / 2 * 2 + 2);
  }
  for (const auto& rank : ranks_) {
    rank->generation_ = generation;
  }
  arrived_ = 0;
  broken_ = false;
  error_ = nullptr;
  pass_ = &pass;
  unfinished_ = static_cast<std::uint32_t>(ranks_.size() - 1);
  round_.fetch_add(1, std::memory_order_acq_rel);
  round_.notify_all();
  compute(*ranks_[0], pass);
  std::uint32_t left = unfinished_.load(std::memory_order_acquire);
  while (left > 0) {
    unfinished_.wait(left, std::memory_order_acquire);
    left = unfinished_.load(std::memory_order_acquire);
  }
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
  // In a pass without a meeting rank 0 computed alone.
  if (ranks_[0]->generation_ > generation) {
    balance();
  }
}

void RankTeam::balance() {
  std::vector<double> seconds;
  for (const auto& rank : ranks_) {
    seconds.push_back(rank->seconds_ - rank->waited_);
  }
  if (balances_) {
    shares_ = next_shares(shares_, seconds);
  }
}

}  // namespace troupe::actors
