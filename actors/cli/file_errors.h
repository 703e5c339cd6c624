#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "actors/cli/verbs.h"

namespace troupe::actors {

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

}  // namespace troupe::actors
