#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "kernels/core/clock.h"

namespace troupe::actors {

/// Decides which process is asked for which chunk, while this process fetches a
/// model. The first process has all of them. Other workers' processes, the
/// givers, have all or some, and may be fetching themselves.
///
///   - A giver is asked for what it has. The first process is asked for what no
///     giver is known to have. For the rest it is asked too, but for one chunk
///     at a time: a slow giver must not be slower than none, and the link of
///     the first process is everybody's. So at the end it is asked for what
///     givers have not given for two seconds.
///   - Givers that are known from the beginning have two seconds to say what
///     they have before the first process is asked for anything.
///   - Each process takes the chunks in an order of its own. So processes that
///     begin together take different chunks from the first process, and then
///     exchange chunks. Orders that only begin at another place are not enough:
///     two processes do the last part side by side, and took a third of the
///     chunks twice.
///   - A giver that does not answer rests for a while, and its chunks are asked
///     of another process. A giver whose answer cannot be right is asked no
///     more.
///
/// Decides only. Thread: one.
class ChunkPlan {
 public:
  struct Question {
    int process = 0;
    /// Nothing: which chunks it has.
    std::optional<std::size_t> chunk;

    friend bool operator==(const Question&, const Question&) = default;
  };

  /// there: which of all chunks need not be fetched.
  ChunkPlan(std::vector<bool> there, int own_process);

  /// All who give now. Only some of many are asked.
  void set_givers(const std::vector<int>& processes, TimePoint now);
  /// What to ask now; each question is answered by one of the calls below.
  [[nodiscard]] std::vector<Question> next(TimePoint now);

  /// A giver has said which chunks it has.
  void holds(int process, std::vector<bool> which, TimePoint now);
  /// The chunk has come. It may have come from another process before.
  void came(const Question& question);
  /// A giver did not answer, or has not got it.
  void came_not(const Question& question, TimePoint now);
  /// The answer cannot be right. False: the giver was distrusted before.
  bool came_wrong(const Question& question);

  [[nodiscard]] bool is_done() const noexcept { return num_left_ == 0; }
  [[nodiscard]] bool is_there(std::size_t chunk) const { return there_[chunk]; }

 private:
  struct Giver {
    std::vector<bool> has;  ///< empty: not known
    bool has_all = false;
    bool is_asked_what = false;
    bool has_answered = false;
    TimePoint look_at;      ///< when to ask what it has again
    TimePoint rests_until;  ///< asked for nothing before
    /// Chunks that it was asked for, and when.
    std::map<std::size_t, TimePoint> open;

    [[nodiscard]] bool holds(std::size_t chunk) const {
      return !has.empty() && has[chunk];
    }
  };

  void ask_giver(int process, Giver& giver, TimePoint now,
                 std::vector<Question>& questions);
  void ask_first_process(TimePoint now, std::vector<Question>& questions);
  [[nodiscard]] bool is_held(std::size_t chunk) const;
  [[nodiscard]] std::optional<std::size_t> slowest(TimePoint now) const;
  void close(const Question& question);

  int own_process_;
  std::vector<bool> there_;
  /// Chunks that no process is asked for now, in the order in which they will
  /// be fetched.
  std::vector<std::size_t> missing_;
  std::size_t num_left_ = 0;              ///< chunks that are not there
  std::optional<TimePoint> waits_until_;  ///< for givers, to begin with
  std::set<std::size_t> open_first_;      ///< those asked of the first process
  std::map<int, Giver> givers_;
  std::set<int> distrusted_;
};

}  // namespace troupe::actors
