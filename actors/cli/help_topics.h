#pragma once

#include <span>
#include <string>
#include <string_view>

namespace troupe::actors {

/// A document that `troupe help NAME` prints. To add one: a row in
/// help_topics.cpp, and a test that holds it against the program.
struct HelpTopic {
  std::string_view name;
  std::string_view summary;
  std::string (*text)();  ///< whole lines
};

[[nodiscard]] std::span<const HelpTopic> help_topics();

}  // namespace troupe::actors
