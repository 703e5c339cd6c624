#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/core/attention_plan.h"
#include "kernels/core/tensor.h"

namespace troupe {

class ExecContext;

/// Rows [begin, end) of a stream.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const RowRange&) const = default;
};

/// Rows of both ranges. If there are none, an empty range at the begin of `a`.
[[nodiscard]] inline RowRange intersection(RowRange a, RowRange b) {
  const RowRange both{a.begin > b.begin ? a.begin : b.begin,
                      a.end < b.end ? a.end : b.end};
  return both.size() > 0 ? both : RowRange{a.begin, a.begin};
}

/// Rows (axis 0) of a shared tensor, and which elements of each row.
struct SharedBlock {
  RowRange rows;
  RowRange columns;
};

/// Blocks of a shared tensor: written by a rank, and read by it.
struct SharedBlocks {
  std::vector<SharedBlock> written;
  std::vector<SharedBlock> read;
};

/// Blocks that `writer` wrote and `reader` reads.
[[nodiscard]] inline std::vector<SharedBlock> common_blocks(
    const SharedBlocks& writer, const SharedBlocks& reader) {
  std::vector<SharedBlock> common;
  for (const SharedBlock& written : writer.written) {
    for (const SharedBlock& read : reader.read) {
      const SharedBlock both{intersection(written.rows, read.rows),
                             intersection(written.columns, read.columns)};
      if (both.rows.size() > 0 && both.columns.size() > 0) {
        common.push_back(both);
      }
    }
  }
  return common;
}

/// Port: what one rank of a pass knows of sequence parallelism. Several ranks
/// compute one pass; each has some of the tokens of every stream. All ranks
/// call `share` and `meet` in the same order. The default is one rank that has
/// everything.
class ShardContext {
 public:
  virtual ~ShardContext() = default;

  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] virtual int world_size() const { return 1; }
  [[nodiscard]] virtual AttentionPlan plan() const {
    return AttentionPlan::gather;
  }
  /// A rank's rows of a stream of so many rows. They begin at a multiple of the
  /// row blocks that define bytes (kernels/row_blocks.h), and end at one or
  /// with the stream. May be none.
  [[nodiscard]] virtual RowRange rows_of(int /*rank*/,
                                         std::int64_t rows) const {
    return {0, rows};
  }
  /// Those of this rank.
  [[nodiscard]] RowRange own(std::int64_t rows) const {
    return rows_of(rank(), rows);
  }
  /// A tensor on this rank's device for an exchange: the rank writes its rows,
  /// and after `meet` reads those of others. Ranks of one memory get the same
  /// tensor. It holds until the second `meet` from here on. shape: equal on all
  /// ranks, rows first; `of_rank`: the same function on all of them.
  [[nodiscard]] virtual Tensor share(
      const Shape& shape, DType dtype,
      const std::function<SharedBlocks(int rank)>& /*of_rank*/) {
    return {shape, dtype};
  }
  /// Equal calls of `share` and `meet` from equal phases on get the same
  /// tensors, once these have been as large.
  [[nodiscard]] virtual int phase() const { return 0; }
  /// Returns when every rank has come here, and what they wrote may be read.
  /// Errors: Errc::interrupted where another rank failed.
  virtual void meet() {}
};

/// Port: the contexts that compute the passes of one, the lead, which does all
/// other work of the worker.
class ShardTeam {
 public:
  virtual ~ShardTeam() = default;

  using Pass = std::function<void(ExecContext&, ShardContext&)>;
  /// Calls `pass` once for each rank, at the same time, and returns when all
  /// have ended. Rank 0 is the calling thread. Errors: the first one that a
  /// rank threw. Thread: the lead's.
  virtual void run(const Pass& pass) = 0;
  /// Whether what ended the last pass will not end it again, as ranks whose
  /// device is lost have left the team. Results of that pass are undefined; it
  /// may be computed again from inputs that it did not write. True once for a
  /// pass.
  [[nodiscard]] virtual bool can_run_again() { return false; }
  /// Those of the ranks beside the lead's; none: they compute on the lead's.
  [[nodiscard]] virtual std::vector<Device> other_devices() const { return {}; }
};

/// Calls `pass` for each rank of the context's team; without one for the
/// context alone. Errors: as ShardTeam::run.
void with_ranks(ExecContext& ctx, const ShardTeam::Pass& pass);

}  // namespace troupe
