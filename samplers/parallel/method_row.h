#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::samplers {

class Method;
class Schedule;
struct MethodChoices;
struct MethodOptions;
class TaskList;

/// Samples that one group of workers keeps in flight.
struct InFlight {
  /// Enough that each worker has two grants to run while results travel.
  int most = 1;
  /// The same where a grant takes much longer than its way to the worker: more
  /// samples would hide nothing, and all of them would end later.
  int most_of_long_grants = 1;
};

/// Who serves one sample.
struct TurnShape {
  int num_calls = 1;
  int num_workers = 1;
  /// The work of each part of the network, as a share of the whole; empty: all
  /// are equal.
  std::vector<double> part_shares = {};
};

/// The cost of one sample in units of one evaluation by one worker. Steps and
/// messages cost nothing.
struct Turn {
  double evaluations = 0;  ///< of all workers together
  double busy = 0;         ///< of the busiest worker
  double latency = 0;      ///< from the sample's start to its end
};

/// Values of one sample, by kind.
struct LiveValues {
  int states = 0;
  int outputs = 0;     ///< of the network
  int boundaries = 0;  ///< from one segment to the next
  int skips = 0;       ///< that a segment keeps for its mirror
  int caches = 0;      ///< of evaluations, for later ones
};

/// What a user may add to a method: "sequential+cache". It changes how tasks
/// evaluate the network, not which tasks there are.
enum class Modifier : std::uint8_t {
  cache  ///< blocks are left out where their input hardly changed (cache.h)
};
struct ModifierRow {
  std::string_view name;
  std::string_view options;  ///< as MethodRow::options
};
/// By Modifier.
inline constexpr ModifierRow kModifiers[] = {{"cache", "cache-threshold"}};

/// All that the house knows of one parallel method; its row stands at the end
/// of its own file. To add one: see README.md.
struct MethodRow {
  /// In flags, recipes and snapshots: never changed.
  std::string_view name;
  /// Rises when `restore` can no longer read older snapshots.
  std::uint64_t snapshot_format = 1;
  /// Keys of the method's command-line options, separated by spaces. Options of
  /// other methods are refused.
  std::string_view options;
  /// Names of the modifiers that it can have, separated by spaces.
  std::string_view modifiers = "";
  /// Why "auto" took it; empty: it never does.
  std::string_view chosen_because;
  /// The two branches of guidance are tasks of their own, one of each of two
  /// parts. Either of the sample's two workers may compute one.
  bool splits_guidance = false;
  /// Any worker of the sample's execution class may run its tasks. Otherwise
  /// each belongs to the worker of its part.
  bool spreads = false;
  /// It may end earlier than `turn` says.
  bool may_end_early = false;

  /// Options as they are before the user's choices; null: MethodOptions as it
  /// is. num_calls: 0 if not known. num_workers: that can share a sample.
  MethodOptions (*defaults)(const MethodChoices&, int num_calls,
                            int num_workers) = nullptr;
  /// The tasks of one sample, where they are known beforehand (plan.h); null:
  /// they follow from results, and `make` makes the machine of one sample. What
  /// is said below of methods without a plan follows from the plan where there
  /// is one. Errors: see make_method.
  TaskList (*plan)(const MethodOptions&, int num_calls) = nullptr;
  /// Refuses schedules that the method cannot carry; null: it carries all.
  /// Errors: Errc::unsupported.
  void (*check)(const MethodOptions&, const Schedule&) = nullptr;
  std::unique_ptr<Method> (*make)(const MethodOptions&,
                                  const Schedule&) = nullptr;
  /// Whether a result may have other bytes than the sequential run with the
  /// same modifiers; null: never.
  bool (*approximates)(const MethodOptions&) = nullptr;
  /// See note_of.
  std::string_view note_if_exact = "";
  std::string_view note_if_approximate = "";

  /// Whether it makes no state of its chain for some calls, so that a run has
  /// no whole trajectory; null: never.
  bool (*skips_points)(const MethodOptions&) = nullptr;

  /// Logical workers of one sample; null: 1.
  int (*parts)(const MethodOptions&) = nullptr;
  /// Workers that a job of so many samples can keep busy.
  std::uint64_t (*useful_workers)(const MethodOptions&, std::uint64_t samples);
  /// The most rows of one forward pass, both branches of guidance as one; null:
  /// as many as the device likes.
  int (*most_rows)(const MethodOptions&) = nullptr;
  /// Two by default: the next sample is at hand when one ends.
  InFlight (*in_flight)(int num_parts, int rows_per_pass) = [](int, int) {
    return InFlight{2, 2};
  };
  // Of a method without a plan. See the functions of the same names.
  Turn (*turn)(const MethodOptions&, const TurnShape&) = nullptr;
  double (*most_tasks)(const MethodOptions&, int num_calls) = nullptr;
  LiveValues (*most_live)(const MethodOptions&, int num_calls,
                          int max_open) = nullptr;
};

/// A parallel method: its row, which lives as long as the program, and its
/// modifiers.
class MethodKind {
 public:
  constexpr explicit MethodKind(const MethodRow& row) noexcept : row_(&row) {}
  [[nodiscard]] constexpr const MethodRow* operator->() const noexcept {
    return row_;
  }
  [[nodiscard]] constexpr bool has(Modifier modifier) const noexcept {
    return (modifiers_ & bit(modifier)) != 0;
  }
  [[nodiscard]] constexpr MethodKind with(Modifier modifier) const noexcept {
    MethodKind kind = *this;
    kind.modifiers_ |= bit(modifier);
    return kind;
  }
  /// The same modifiers of another method.
  [[nodiscard]] constexpr MethodKind on(MethodKind other) const noexcept {
    other.modifiers_ = modifiers_;
    return other;
  }
  /// Whether the options of its row or of its modifiers have this key.
  [[nodiscard]] bool takes(std::string_view key) const;

  bool operator==(const MethodKind&) const = default;

  static const MethodKind sequential, batch, cfg, picard, pipeline, stale,
      draft, chords, parareal, taa, speculative;

 private:
  [[nodiscard]] static constexpr std::uint32_t bit(Modifier modifier) noexcept {
    return std::uint32_t{1} << static_cast<unsigned>(modifier);
  }

  const MethodRow* row_;
  std::uint32_t modifiers_ = 0;
};

/// In flags, recipes and records: "sequential", "draft+cache".
[[nodiscard]] std::string to_string(MethodKind kind);

/// Methods in the order in which help texts show them.
using MethodTable = std::span<const MethodKind>;
/// Those that Troupe has.
[[nodiscard]] MethodTable method_table();

/// Whether a result may have other bytes than the sequential run.
[[nodiscard]] bool approximates(const MethodOptions& options);
/// What the user should know about these options beside an error that was
/// measured; empty: nothing.
[[nodiscard]] std::string_view note_of(const MethodOptions& options);

// What a method costs. Errors: as make_method.
[[nodiscard]] Turn turn_of(const MethodOptions& options,
                           const TurnShape& shape);
/// The most tasks of a sample, without its decode.
[[nodiscard]] double most_tasks(const MethodOptions& options, int num_calls);
/// The most values of a sample that exist at once, of each kind, if `ready` was
/// never asked for more than `max_open` tasks: slots that are made and have not
/// died, and those that tasks which are out will make. True in every order of
/// results. Without pixels.
[[nodiscard]] LiveValues most_live(const MethodOptions& options, int num_calls,
                                   int max_open);

[[nodiscard]] int num_parts(const MethodOptions& options);
/// Parts of the network: 1 for methods that do not cut it.
[[nodiscard]] int num_network_parts(const MethodOptions& options);
/// Its segments: one for each part, or the 2 N − 1 of an onion.
[[nodiscard]] int num_segments(const MethodOptions& options);
/// The part that a segment belongs to.
[[nodiscard]] int part_of_segment(const MethodOptions& options, int segment);
/// Whether a segment keeps skips for its mirror, the segment of the same part
/// on the way outward; and whether the segment is a mirror.
[[nodiscard]] bool keeps_skips(const MethodOptions& options, int segment);
[[nodiscard]] bool takes_skips(const MethodOptions& options, int segment);

}  // namespace troupe::samplers
