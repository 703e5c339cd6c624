#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cli/program.h"

// Runs from a prompt to a picture, with tiny pipelines of random weights. For
// tests that are compiled alone: the names are short.

namespace troupe::test {

using Arguments = std::vector<std::string>;

inline Arguments joined(Arguments one, const Arguments& more) {
  one = overridden(std::move(one), more);
  return one;
}

inline constexpr const char* kPixArt = "tiny-pixart-sigma";
inline constexpr const char* kStableDiffusion = "tiny-sd15";
inline constexpr const char* kStableDiffusionXl = "tiny-sdxl";

/// A job of a tiny pipeline in four steps.
inline Outcome sample(const Arguments& more,
                      const std::string& model = kPixArt) {
  return run(joined({"sample", "--random-weights", model, "--steps", "4",
                     "--progress", "none", "--json"},
                    more));
}

inline nlohmann::json done(const Arguments& more,
                           const std::string& model = kPixArt) {
  const Outcome outcome = sample(more, model);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

inline void expect_refused(const Outcome& outcome, int exit_code,
                           const std::string& says) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

inline const Arguments kFox = {"--prompt", "a red fox in the snow"};

}  // namespace troupe::test
