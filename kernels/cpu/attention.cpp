#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_cut.h"
#include "kernels/cpu/rows.h"

namespace troupe::kernels::cpu {
namespace {

constexpr std::int64_t kPiecesPerThread = 4;
constexpr std::int64_t kRowsPerGather = 512;

/// Copies rows of one head out of a wide matrix, filled up with zeros to
/// `depth` columns. The library's fast products want dense operands. The thread
/// that multiplies also copies, so the operands are in its cache.
void gather_head(const HeadsView& view, std::int64_t item, std::int64_t column,
                 std::int64_t begin, std::int64_t count, std::int64_t head_dim,
                 std::int64_t depth, std::byte* to) {
  const std::size_t element = size_of(view.base.dtype());
  const auto copied = static_cast<std::size_t>(head_dim) * element;
  const auto padding = static_cast<std::size_t>(depth - head_dim) * element;
  const std::int64_t width = view.base.dim(2);
  const Source from = Source(view.base).at(
      (item * view.base.dim(1) + begin) * width + view.column + column);
  for (std::int64_t row = 0; row < count; ++row) {
    std::memcpy(to, from.at(row * width).data, copied);
    std::memset(to + copied, 0, padding);
    to += copied + padding;
  }
}

/// The items of a call that have as many keys that count.
struct Group {
  std::int64_t keys;
  RowCut cut;
  AttentionPlan plan;
};

/// One call of `attention`.
class Job {
 public:
  Job(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
      const HeadsView& v, std::int64_t num_heads, std::int64_t head_dim,
      const AttentionMask& mask, HeadsView& out)
      : ctx_(ctx),
        q_(q),
        k_(k),
        v_(v),
        num_heads_(num_heads),
        head_dim_(head_dim),
        scale_(mask.scale.value_or(1.0F /
                                   std::sqrt(static_cast<float>(head_dim)))),
        mask_(mask),
        out_(out) {
    const std::int64_t keys = k.base.dim(1);
    if (mask.key_lengths.empty()) {
      group_of_item_.assign(static_cast<std::size_t>(q.base.dim(0)),
                            add_group(keys));
      return;
    }
    MatmulCache::of(ctx).trim();
    for (const std::int64_t length : mask.key_lengths) {
      group_of_item_.push_back(add_group(length));
    }
  }

  void run() {
    for (const Group& group : groups_) {
      most_blocks_ = std::max(most_blocks_, group.cut.num_blocks);
      head_bytes_ = std::max(head_bytes_, group.plan.at.head_bytes);
      block_bytes_ = std::max(block_bytes_, group.plan.block_bytes);
    }
    const auto busy = static_cast<std::size_t>(
        std::min<std::int64_t>(ctx_.num_threads(), heads() * most_blocks_));
    if (busy * (head_bytes_ + block_bytes_) <= kMostAttentionBytes) {
      run_apart();
    } else {
      run_together();
    }
  }

 private:
  /// Each thread has a copy of the k and v that it works on.
  void run_apart() {
    // A piece is some blocks of one head, so that k and v are copied once for
    // many blocks; with few heads they are cut finer, for all threads to help.
    const std::int64_t wanted = kPiecesPerThread * ctx_.num_threads();
    const std::int64_t parts =
        std::min(most_blocks_, (wanted + heads() - 1) / heads());
    ctx_.pool().run(heads() * parts, [&](std::int64_t piece, int thread) {
      const Head head = head_at(piece / parts);
      const std::int64_t blocks = group_of(head).cut.num_blocks;
      const std::int64_t part = piece % parts;
      const std::int64_t begin = part * blocks / parts;
      const std::int64_t end = (part + 1) * blocks / parts;
      if (begin == end) {
        return;
      }
      std::byte* copies = ctx_.scratch(thread, head_bytes_ + block_bytes_);
      gather(head, 0, group_of(head).keys, copies);
      for (std::int64_t block = begin; block < end; ++block) {
        run_block(head, block, thread, copies, copies + head_bytes_);
      }
    });
  }

  /// All threads have one copy, of as many heads at a time as there is room
  /// for; where even their blocks have none, fewer threads work.
  void run_together() {
    const auto room_beside = [](std::size_t taken, std::size_t bytes) {
      return static_cast<std::int64_t>(
          (kMostAttentionBytes - std::min(kMostAttentionBytes, taken)) / bytes);
    };
    const std::int64_t threads =
        std::min<std::int64_t>(ctx_.num_threads(), heads() * most_blocks_);
    const std::int64_t together = std::clamp<std::int64_t>(
        room_beside(static_cast<std::size_t>(threads) * block_bytes_,
                    head_bytes_),
        1, heads());
    const std::size_t copies_bytes =
        static_cast<std::size_t>(together) * head_bytes_;
    const std::int64_t workers = std::clamp<std::int64_t>(
        room_beside(copies_bytes, block_bytes_), 1, threads);
    const Workspace::Scope scope(ctx_.workspace());
    Tensor memory = ctx_.workspace().take(
        {static_cast<std::int64_t>(copies_bytes) +
         workers * static_cast<std::int64_t>(block_bytes_)},
        DType::u8);
    std::byte* copies = memory.bytes().data();
    for (std::int64_t first = 0; first < heads(); first += together) {
      const std::int64_t count = std::min(together, heads() - first);
      gather_heads(first, count, copies);
      run_heads(first, count, workers, copies, copies + copies_bytes);
    }
  }

  void gather_heads(std::int64_t first, std::int64_t count, std::byte* copies) {
    const std::int64_t parts =
        (k_.base.dim(1) + kRowsPerGather - 1) / kRowsPerGather;
    ctx_.pool().run(count * parts, [&](std::int64_t piece, int /*thread*/) {
      const Head head = head_at(first + piece / parts);
      const std::int64_t begin = piece % parts * kRowsPerGather;
      const std::int64_t end =
          std::min(begin + kRowsPerGather, group_of(head).keys);
      if (begin < end) {
        gather(head, begin, end, copies + offset(piece / parts, head_bytes_));
      }
    });
  }

  /// `blocks` has room for `workers` blocks at a time.
  void run_heads(std::int64_t first, std::int64_t count, std::int64_t workers,
                 const std::byte* copies, std::byte* blocks) {
    std::atomic<std::int64_t> next{0};
    ctx_.pool().run(workers, [&](std::int64_t worker, int thread) {
      for (std::int64_t at = next++; at < count * most_blocks_; at = next++) {
        const std::int64_t index = at / most_blocks_;
        const Head head = head_at(first + index);
        if (at % most_blocks_ < group_of(head).cut.num_blocks) {
          run_block(head, at % most_blocks_, thread,
                    copies + offset(index, head_bytes_),
                    blocks + offset(worker, block_bytes_));
        }
      }
    });
  }

  [[nodiscard]] static std::size_t offset(std::int64_t index,
                                          std::size_t bytes) {
    return static_cast<std::size_t>(index) * bytes;
  }

  /// One head of one item.
  struct Head {
    std::int64_t item, index;
  };
  [[nodiscard]] std::int64_t heads() const {
    return q_.base.dim(0) * num_heads_;
  }
  [[nodiscard]] Head head_at(std::int64_t index) const {
    return {index / num_heads_, index % num_heads_};
  }
  [[nodiscard]] const Group& group_of(const Head& head) const {
    return groups_[group_of_item_[static_cast<std::size_t>(head.item)]];
  }

  /// Index of the group for `keys`, which is made if there is none.
  std::size_t add_group(std::int64_t keys) {
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (groups_[i].keys == keys) {
        return i;
      }
    }
    const std::vector<RowRange> blocks = blocks_of_keys(keys, mask_.key_blocks);
    const DType dtype = q_.base.dtype();
    const RowCut cut = cut_rows(
        q_.base.dim(1), attention_block_rows(most_keys(blocks)),
        [&](std::int64_t height) {
          return std::ranges::all_of(blocks, [&](const RowRange& block) {
            const AttentionShapes shapes(block.size(), head_dim_, dtype);
            return rows_stand_alone(ctx_, shapes.logits(height)) &&
                   rows_stand_alone(ctx_, shapes.mix(height));
          });
        });
    groups_.push_back(
        {keys, cut, AttentionPlan(ctx_, cut, blocks, head_dim_, dtype)});
    return groups_.size() - 1;
  }

  /// Copies rows [begin, end) of a head's k and v.
  void gather(const Head& head, std::int64_t begin, std::int64_t end,
              std::byte* copies) const {
    const AttentionPlan& plan = group_of(head).plan;
    const std::int64_t column = head.index * head_dim_;
    const std::size_t element = size_of(k_.base.dtype());
    gather_head(k_, head.item, column, begin, end - begin, head_dim_,
                plan.at.depth,
                copies + plan.at.k + offset(begin * plan.at.depth, element));
    gather_head(v_, head.item, column, begin, end - begin, head_dim_, head_dim_,
                copies + plan.at.v + offset(begin * head_dim_, element));
  }

  /// One block of query rows; k and v lie in `copies`.
  void run_block(const Head& head, std::int64_t block, int thread,
                 const std::byte* copies, std::byte* scratch) const {
    const Group& group = group_of(head);
    const AttentionPlan& plan = group.plan;
    const std::int64_t column = head.index * head_dim_;
    const std::int64_t queries = q_.base.dim(1);
    const std::int64_t width = out_.base.dim(2);
    const bool last = block + 1 == group.cut.num_blocks;
    const std::int64_t row = block * group.cut.block_rows;
    gather_head(q_, head.item, column, row, last ? plan.last_rows : plan.rows,
                head_dim_, plan.at.depth, scratch + plan.at.q);
    attend(group, last, mask_of(head.index, row), thread, copies, scratch,
           Target(out_.base).at((head.item * queries + row) * width +
                                out_.column + column),
           width);
  }

  [[nodiscard]] LogitsMask mask_of(std::int64_t head, std::int64_t row) const {
    LogitsMask block{.causal = mask_.causal, .first_row = row};
    if (!mask_.bias.empty()) {
      block.bias_stride = mask_.bias.dim(2);
      block.bias = mask_.bias.data<float>() +
                   (head * mask_.bias.dim(1) + row) * block.bias_stride;
    }
    return block;
  }

  /// out = softmax(masked scale · q · kᵀ) · v for one block; q is in scratch.
  /// Blocks of keys are merged one after the other. The division by the row
  /// sums comes last, on head_dim instead of keys columns.
  void attend(const Group& group, bool last, const LogitsMask& mask, int thread,
              const std::byte* copies, std::byte* scratch, Target out,
              std::int64_t out_stride) const {
    const AttentionPlan& plan = group.plan;
    const std::int64_t rows = last ? plan.last_rows : plan.rows;
    const std::size_t element = size_of(out.dtype);
    auto* logits = reinterpret_cast<float*>(scratch + plan.at.logits);
    const Target powers(scratch + plan.at.powers, out.dtype);
    std::byte* library = scratch + plan.at.for_library;
    const auto rows_at = [scratch](const AttentionRows& at) {
      return PowerRows{reinterpret_cast<float*>(scratch + at.mixed),
                       reinterpret_cast<float*>(scratch + at.sums),
                       reinterpret_cast<float*>(scratch + at.tops)};
    };
    const PowerRows merged = rows_at(plan.at.first);

    for (const AttentionPlan::Products& part : plan.products) {
      const bool is_first = part.keys.begin == 0;
      const PowerRows to = is_first ? merged : rows_at(plan.at.next);
      (last ? part.last_logits : part.logits)
          ->run(thread, scratch + plan.at.q,
                copies + plan.at.k +
                    offset(part.keys.begin * plan.at.depth, element),
                logits, library);
      if (mask.causal || mask.bias != nullptr) {
        exp_masked_rows(logits, rows, group.keys, scale_, mask, powers,
                        to.sums);
      } else {
        exp_rows(logits, rows, part.keys.size(), scale_, powers, to.sums,
                 plan.products.size() > 1 ? to.tops : nullptr);
      }
      (last ? part.last_mix : part.mix)
          ->run(
              thread, powers.data,
              copies + plan.at.v + offset(part.keys.begin * head_dim_, element),
              to.rows, library);
      if (!is_first) {
        merge_rows(to, rows, head_dim_, scale_, merged);
      }
    }
    divide_rows(merged.rows, rows, head_dim_, merged.sums, out, out_stride);
  }

  ExecContext& ctx_;
  const HeadsView& q_;
  const HeadsView& k_;
  const HeadsView& v_;
  std::int64_t num_heads_;
  std::int64_t head_dim_;
  float scale_;
  const AttentionMask& mask_;
  HeadsView& out_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_item_;
  std::int64_t most_blocks_ = 0;
  std::size_t head_bytes_ = 0;
  std::size_t block_bytes_ = 0;
};

}  // namespace

void attention(ExecContext& ctx, const HeadsView& q, const HeadsView& k,
               const HeadsView& v, std::int64_t num_heads,
               std::int64_t head_dim, const AttentionMask& mask,
               HeadsView& out) {
  if (q.base.empty()) {
    return;
  }
  Job(ctx, q, k, v, num_heads, head_dim, mask, out).run();
}

std::size_t attention_thread_bytes(std::int64_t keys, std::int64_t head_dim,
                                   DType dtype, std::int64_t key_blocks) {
  const std::vector<RowRange> blocks = blocks_of_keys(keys, key_blocks);
  const std::int64_t most = most_keys(blocks);
  const AttentionLayout at(keys, {most, head_dim, dtype}, blocks.size() > 1,
                           attention_block_rows(most));
  return at.head_bytes + at.for_library;
}

}  // namespace troupe::kernels::cpu
