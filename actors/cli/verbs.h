#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/artefacts/summary.h"
#include "actors/cli/signals.h"
#include "config/load_config.h"
#include "config/recipe.h"

namespace troupe::actors {

/// What every verb is handed.
struct Invocation {
  config::Config config;
  config::Sources sources;         ///< that `config` was merged from
  std::vector<std::string> files;  ///< arguments that are no options
  SignalWatch* signals = nullptr;  ///< never null while a verb runs
  /// The level that a recipe has held this process to.
  std::optional<IsaLevel> isa_held;
  /// Set by a verb from where a signal shall be waited for, not end the
  /// process; lives until the verb's last word is out.
  std::optional<StopFlag> stop;
  /// Filled as the run goes, so that a failure reports what is known.
  RunSummary summary;

  /// Call before printing what the run ends with; see SignalWatch.
  void take_last_word() const {
    if (signals != nullptr) {
      signals->take_last_word();
    }
  }
};

/// The recipe of the image that --from names, merged into `invocation.config`
/// above environment and file; nothing without --from. Errors:
/// Errc::corrupt_file, Errc::invalid_argument for one that needs latents.
[[nodiscard]] std::optional<config::Recipe> take_recipe(Invocation& invocation);

/// What --print-config prints: every option of the verb with the value that a
/// run would have and where it comes from, as TOML that --config reads back.
/// Where a model is named its folder is opened, no weights are read; with
/// --from the recipe is merged into `invocation.config`.
/// Errors: those of make_request.
[[nodiscard]] std::string values_in_force(config::Verb verb,
                                          Invocation& invocation);

/// What goes wrong in a verb that looks at several files. What is wrong with
/// one is no reason to pass over the others.
class FileErrors {
 public:
  /// Says it on stderr. Errors that concern all files alike are said once.
  void add(const Error& error);
  /// Ends the verb with the worst of them: our bug, else that of the highest
  /// exit code. With --json prints one object: the envelope, what was `found`,
  /// and that error. Returns the exit code.
  [[nodiscard]] int finish(Invocation& invocation,
                           const nlohmann::ordered_json& found) const;

 private:
  std::optional<Error> worst_;
  std::string last_line_;
};

/// Each returns the exit code and prints to stdout what it found; with --json
/// the last thing it prints is one object. Errors: thrown as Error.
[[nodiscard]] int run_sample(Invocation& invocation);
[[nodiscard]] int run_schedule(Invocation& invocation);
[[nodiscard]] int run_inspect(Invocation& invocation);
[[nodiscard]] int run_verify(Invocation& invocation);
[[nodiscard]] int run_bench(Invocation& invocation);
[[nodiscard]] int run_doctor(Invocation& invocation);
[[nodiscard]] int run_keys(Invocation& invocation);
[[nodiscard]] int run_worker(Invocation& invocation);
[[nodiscard]] int run_ls(Invocation& invocation);
[[nodiscard]] int run_cancel(Invocation& invocation);
[[nodiscard]] int run_encode(Invocation& invocation);

}  // namespace troupe::actors
