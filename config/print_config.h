#pragma once

#include <functional>
#include <map>
#include <string>

#include "config/config.h"
#include "config/option_table.h"

namespace troupe::config {

/// The value of an option that nobody set, as it was decided for a job.
struct Decided {
  std::string text;    ///< as Option::set reads it; empty: only a remark
  std::string source;  ///< "default", a file
  /// Whether the option said with this value changes nothing; otherwise the
  /// value is only shown.
  bool repeats = true;
  std::string remark = {};  ///< what "auto" or 0 came to: "2 here"
};
/// By the option's key.
using Decisions = std::map<std::string, Decided, std::less<>>;

/// Every option of a verb as a TOML file that --config reads back to the same
/// values, each as its own type and with the source as a comment: the place
/// where it was set, what `decisions` say of it, or "default". What has no
/// value in force is a comment.
[[nodiscard]] std::string to_toml(Verb verb, const Config& config,
                                  const Decisions& decisions = {});

}  // namespace troupe::config
