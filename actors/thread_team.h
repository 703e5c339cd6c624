#pragma once

#include "actors/rank_team.h"

namespace troupe::actors {

/// A worker of the CPU whose passes are computed by several groups of threads:
/// each rank has some of the tokens, and what attention reads of all of them
/// lies in memory that the ranks share, so nothing is copied. How many tokens a
/// rank has follows from how fast it was.
class ThreadTeam final : public RankTeam {
 public:
  /// lead: the worker's context; it must outlive the team. Each rank gets a
  /// context with an equal part of its threads, at least one. Errors: those of
  /// ThreadPool.
  ThreadTeam(ExecContext& lead, int ranks,
             AttentionPlan plan = AttentionPlan::gather);
};

}  // namespace troupe::actors
