#include "actors/cli/run_troupe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>

#include "actors/cli/command_line.h"
#include "actors/cli/help_text.h"
#include "actors/cli/isa_in_force.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/verbs.h"
#include "actors/cli/versions.h"
#include "config/enum_names.h"
#include "config/load_config.h"
#include "config/option_table.h"
#include "kernels/core/log.h"

namespace troupe::actors {
namespace {

using config::Verb;

config::Sources sources_of(const CommandLine& line) {
  config::Sources sources = config::read_environment();
  sources.flags = line.flags;
  if (!line.config_file.empty()) {
    sources.file = line.config_file;
  } else if (const char* named = std::getenv("TROUPE_CONFIG")) {
    require(*named != 0, Errc::invalid_argument, "TROUPE_CONFIG",
            "the value is empty", "name a file, or unset the variable");
  }
  return sources;
}

LogLevel level_of(const config::Config& config) {
  if (config.quiet) {
    return LogLevel::error;
  }
  return config.verbose ? LogLevel::info : LogLevel::warning;
}

/// What is said when a signal ends the process. Not through the streams of the
/// C library: the main thread may hold them, even for good (a full pipe).
SignalWatch::LastWords last_words(const RunSummary& summary, bool json) {
  return [summary, json](Errc code, bool again) {
    constexpr int kPatienceMs = 2000;
    const Error error(code, "troupe",
                      again
                          ? "stopped at once by Ctrl-C while the run was ending"
                          : "stopped by a signal");
    // Over the bar, if there is one.
    const std::string line =
        (can_redraw(stderr) ? "\r\x1b[K" : "") + one_line(error);
    write_patiently(STDERR_FILENO, line + "\n", kPatienceMs);
    if (json) {
      write_patiently(STDOUT_FILENO, failure_json(summary, error) + "\n",
                      kPatienceMs);
    }
  };
}

int run(const std::vector<std::string>& arguments,
        const std::function<bool()>& runs_here, Invocation& invocation) {
  const CommandLine line = parse_command_line(arguments);
  if (line.help || line.help_all || line.version) {
    invocation.take_last_word();
    fmt::print("{}", line.version            ? version_line() + "\n"
                     : line.topic != nullptr ? line.topic->text
                     : line.verb != nullptr
                         ? help_text(*line.verb, line.help_all)
                         : help_overview());
    return 0;
  }
  const Verb verb = line.verb->verb;
  invocation.sources = sources_of(line);
  invocation.config = config::load_config(verb, invocation.sources);
  invocation.files = line.files;
  invocation.signals->set_last_words(
      last_words(invocation.summary, invocation.config.json));
  // The environment may name a level for verbs that compute nothing.
  if (config::find_option("isa")->serves(verb) && runs_here()) {
    const config::Config& config = invocation.config;
    check_level(config);
    // A recipe that is run again is stronger than environment and file.
    const bool has_recipe = !config.from.empty() ||
                            (verb == Verb::verify && config.against.empty());
    if (!has_recipe || names_level(config)) {
      hold_to_level(config);
    }
  }
  if (invocation.config.print_config) {
    const std::string text = values_in_force(verb, invocation);
    invocation.take_last_word();
    fmt::print("{}", text);
    return 0;
  }
  set_log_level(level_of(invocation.config));
  if (verb != Verb::doctor) {
    require(runs_here(), Errc::unsupported, "cpu",
            "this processor is not supported: Troupe needs x86-64 with AVX2 "
            "and FMA",
            "troupe doctor shows what was found");
  }
  return line.verb->run(invocation);
}

int report(const Error& error, Invocation& invocation) {
  invocation.take_last_word();
  if (invocation.signals != nullptr) {
    invocation.summary.cancelled_by = invocation.signals->cancelled_by();
  }
  say(stderr, one_line(error));
  if (invocation.config.json) {
    say(stdout, failure_json(invocation.summary, error));
  }
  return exit_code(error.code());
}

}  // namespace

int run_troupe(const std::vector<std::string>& arguments,
               const std::function<bool()>& runs_here) {
  std::optional<SignalWatch> signals;  // outlives what waits for one
  Invocation invocation;
  invocation.summary.version = version();
  // Also where what follows it cannot be understood.
  if (!arguments.empty() && find_verb(arguments[0]) != nullptr) {
    invocation.summary.verb = arguments[0];
  }
  invocation.config.json = wants_json(arguments);  // until it is read
  int code = 0;
  try {
    invocation.signals = &signals.emplace(
        last_words(invocation.summary, invocation.config.json));
    code = run(arguments, runs_here, invocation);
    invocation.take_last_word();
  } catch (const Error& error) {
    code = report(error, invocation);
  } catch (const std::bad_alloc&) {
    code = report(
        Error(Errc::out_of_memory, "troupe", "the system gave no more memory",
              "use --dtype bf16, fewer --workers or a smaller model"),
        invocation);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) == 0) {  // else fmt::print could not write
      code = report(Error(Errc::internal, "troupe", error.what(),
                          "this is a bug: please report it with the command"),
                    invocation);
    }
  }
  const bool is_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (is_lost && code == 0) {
    say(stderr, "troupe: [stdout] cannot write the output");
    return exit_code(Errc::io);
  }
  return code;
}

}  // namespace troupe::actors
