#pragma once

#include <random>
#include <vector>

// Workers of several execution classes, for tests of choices among them.

namespace troupe::actors {

inline constexpr int kNumClasses = 3;

inline int below(std::mt19937& random, int end) {
  return static_cast<int>(random() % static_cast<unsigned>(end));
}

/// The last class has one worker.
inline std::vector<int> some_classes(int workers) {
  std::vector<int> classes(static_cast<std::size_t>(workers));
  for (std::size_t w = 0; w + 1 < classes.size(); ++w) {
    classes[w] = static_cast<int>(w % 2);
  }
  classes.back() = kNumClasses - 1;
  return classes;
}

}  // namespace troupe::actors
