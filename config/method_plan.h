#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/option_table.h"
#include "samplers/options.h"

namespace troupe::config {

/// The table's names, in its order.
[[nodiscard]] std::vector<std::string> method_names(
    samplers::MethodTable table = samplers::method_table());

/// A method with its modifiers: "draft+cache". Unset: auto. Errors:
/// Errc::invalid_argument with the nearest name, or with the methods that have
/// the modifier.
[[nodiscard]] std::optional<samplers::MethodKind> parse_method(
    std::string_view place, std::string_view text,
    samplers::MethodTable table = samplers::method_table());

/// The method that `to_string` names so. Nothing: there is none.
[[nodiscard]] std::optional<samplers::MethodKind> find_method(
    std::string_view name);

/// The rows of the options that this method takes.
[[nodiscard]] std::vector<const Option*> options_of(samplers::MethodKind kind);

/// The method and its options as the command line would say them: pairs of key
/// and value.
[[nodiscard]] std::vector<std::pair<std::string_view, std::string>>
method_settings(const samplers::MethodOptions& options);

/// How the network is cut, as --cut says it; empty: it is whole.
[[nodiscard]] std::string cut_name(const samplers::MethodOptions& options);

/// The methods that --method names. Empty: auto.
[[nodiscard]] std::vector<samplers::MethodKind> named_methods(
    const Config& config);

/// Copies a method's options from `from` where `to` does not set them.
void copy_options(const Config& from, samplers::MethodKind kind, Config& to);

/// Errors: Errc::invalid_argument for an option that no method of `kinds`
/// takes. Errors: Errc::invalid_argument with the methods that take the option.
void check_method_options(const Config& config,
                          std::span<const samplers::MethodKind> kinds);

/// What to measure: a config for each method that --method names, each with the
/// options of its own method alone.
[[nodiscard]] std::vector<Config> configs_by_method(const Config& config);

/// Workers, by the kind of their devices.
struct WorkerCount {
  int cpu = 0;
  int gpu = 0;

  WorkerCount& operator+=(const WorkerCount& more) {
    cpu += more.cpu;
    gpu += more.gpu;
    return *this;
  }
};

/// What a job needs to know to be laid out.
struct PlanInputs {
  std::uint64_t num_samples = 1;
  bool is_guided = false;  ///< two branches per call
  int num_blocks = 1;      ///< at which the network can be cut
  /// The most parts of an onion cut; 0: the network has no skips, so no onion.
  int most_onion_parts = 0;
  /// Whether +cache can leave out blocks of the network.
  bool can_leave_out_blocks = true;
  /// The cut that is cheaper for such options, where the user leaves it open;
  /// unset: a chain.
  std::function<samplers::CutShape(const samplers::MethodOptions&)> cheaper_cut;
  /// The method of a job that is joined; unset: it is chosen here.
  std::optional<samplers::MethodOptions> method;
  int num_calls = 0;  ///< of the network, per sample; 0: not known
  int num_cores = 1;
  /// Devices that workers are dealt out to, GPUs first.
  std::vector<DeviceKind> devices = {DeviceKind::cpu};
  /// Workers of other processes that are there; unset: nobody can come.
  std::optional<WorkerCount> others;
  bool only_others = false;  ///< this process has none
};

/// How a job is laid out: method, workers and threads, all decided.
struct Plan {
  samplers::MethodOptions method;
  int num_workers = 1;
  int num_threads = 1;                    ///< per shard of a CPU worker
  std::vector<int> device_workers = {1};  ///< of each device of the inputs
};

/// The workers of this process in a job that has work for all of them.
[[nodiscard]] WorkerCount own_workers(const Config& config,
                                      const PlanInputs& inputs);

/// The method that "auto" takes in the place of make_plan's where enough other
/// workers are there; nothing: more workers change nothing.
[[nodiscard]] std::optional<samplers::MethodKind> method_with_more_workers(
    const Config& config, const PlanInputs& inputs);

/// Fills in what the user left open. Workers: what the method can use, at most
/// one per core; threads: the cores shared out. Method "auto": cfg when a job
/// with guidance has fewer samples than workers, so that both branches of a
/// sample find one; else batch for several samples (whole samples, exact, no
/// exchange); else sequential on all threads, since only approximate methods
/// could use more workers. Workers of other processes count as this one's. A
/// job that others may join is a batch even if one worker is there: the next
/// one takes whole samples.
///
/// On GPUs a worker has a GPU, not a core: one each unless the user asks for
/// more, which are dealt out in turn; the CPU beside them is one more device,
/// whose worker has the cores that are left. Several samples are a batch even
/// for one GPU, since it computes their rows together.
/// Errors: Errc::invalid_argument for segments above `num_blocks` or
/// `most_onion_parts`, for an onion of a network without skips or of stride 2,
/// for method options that belong to another method, for cfg without guidance,
/// and for +cache with a network, shards or GPUs that do not serve it.
[[nodiscard]] Plan make_plan(const Config& config, const PlanInputs& inputs);

}  // namespace troupe::config
