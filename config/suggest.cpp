#include "config/suggest.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "kernels/core/text.h"

namespace troupe::config {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::string x = lowered(a);
  const std::string y = lowered(b);
  const std::size_t width = y.size() + 1;
  // d(i, j): edits between the first i letters of x and the first j of y.
  std::vector<std::size_t> d((x.size() + 1) * width);
  for (std::size_t i = 0; i <= x.size(); ++i) {
    for (std::size_t j = 0; j <= y.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i * width + j] = i + j;
        continue;
      }
      const std::size_t replace = x[i - 1] == y[j - 1] ? 0 : 1;
      std::size_t best =
          std::min({d[(i - 1) * width + j] + 1, d[i * width + j - 1] + 1,
                    d[(i - 1) * width + j - 1] + replace});
      if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && x[i - 2] == y[j - 1]) {
        best = std::min(best, d[(i - 2) * width + j - 2] + 1);
      }
      d[i * width + j] = best;
    }
  }
  return d.back();
}

std::string nearest(std::string_view word,
                    std::span<const std::string> candidates) {
  // Misspelling costs are quadratic: no one mistypes a name this long.
  constexpr std::size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) {
    return {};
  }
  const std::string wanted = lowered(word);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(candidate.size(), word.size()) -
                               std::min(candidate.size(), word.size());
    // A checkpoint may name any number of classes: no table for those that
    // differ too much by their length alone.
    if (candidate.size() > kLongestWord || longer >= best_distance) {
      continue;
    }
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (best.empty() && wanted.size() >= 3) {
    for (const std::string& candidate : candidates) {
      const std::string name = lowered(candidate);
      const bool contains =
          name.find(wanted) != std::string::npos ||
          (name.size() >= 3 && wanted.find(name) != std::string::npos);
      if (contains && (best.empty() || candidate.size() < best.size())) {
        best = candidate;
      }
    }
  }
  return best;
}

std::string suggestion(std::string_view word,
                       std::span<const std::string> candidates,
                       std::string_view otherwise) {
  const std::string best = nearest(word, candidates);
  return best.empty() ? std::string(otherwise)
                      : "did you mean " + in_quotes(best) + "?";
}

std::vector<std::string> words(std::string_view list) {
  std::istringstream in{std::string(list)};
  return {std::istream_iterator<std::string>(in), {}};
}

std::string join_names(std::span<const std::string> names, std::size_t limit) {
  std::string text;
  for (std::size_t i = 0; i < std::min(limit, names.size()); ++i) {
    text.append(i == 0 ? "" : ", ").append(names[i]);
  }
  if (names.size() > limit) {
    text += ", … (" + std::to_string(names.size()) + " in all)";
  }
  return text;
}

}  // namespace troupe::config
