#include "config/suggest.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "kernels/core/text.h"

namespace troupe::config {

namespace {

/// Misspelling costs are quadratic: no one mistypes a name this long.
constexpr std::size_t kLongestWord = 64;

}  // namespace

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

namespace {

std::string digits_of(std::string_view name) {
  std::string digits;
  std::ranges::copy_if(name, std::back_inserter(digits),
                       [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits;
}

/// Whether one edit makes one of the other. A single letter is no misspelling
/// of another: all of them are one edit apart.
bool is_one_edit(std::string_view a, std::string_view b) {
  return edit_distance(a, b) <= (std::min(a.size(), b.size()) > 1 ? 1U : 0U);
}

/// Whether one word is the other, misspelt: not with letters put before or
/// behind it.
bool is_misspelt(std::string_view word, std::string_view other) {
  const auto [less, more] = std::minmax(
      word, other, [](auto a, auto b) { return a.size() < b.size(); });
  return is_one_edit(word, other) ||
         (edit_distance(word, other) <= word.size() / 3 &&
          more.find(less) == std::string_view::npos);
}

bool is_misspelt_name(std::string_view name, std::string_view other) {
  if (digits_of(name) != digits_of(other)) {
    return false;  // --prompt-3 is not --prompt-2
  }
  if (is_one_edit(name, other)) {
    return true;  // and "promptfile" is "prompt-file"
  }
  const auto words_of = [](std::string_view text) {
    std::string spaced = lowered(text);
    std::ranges::replace_if(
        spaced, [](char c) { return c == '-' || c == '_'; }, ' ');
    return words(spaced);
  };
  return std::ranges::equal(words_of(name), words_of(other), is_misspelt);
}

std::string question(std::string_view best, std::string_view otherwise) {
  return best.empty() ? std::string(otherwise)
                      : "did you mean " + in_quotes(best) + "?";
}

}  // namespace

std::string nearest_name(std::string_view name,
                         std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = kLongestWord;
  if (name.size() > kLongestWord) {
    return best;
  }
  for (const std::string& candidate : candidates) {
    if (is_misspelt_name(name, candidate) &&
        edit_distance(name, candidate) < best_distance) {
      best = candidate;
      best_distance = edit_distance(name, candidate);
    }
  }
  return best;
}

std::string suggested_name(std::string_view name,
                           std::span<const std::string> candidates,
                           std::string_view otherwise) {
  return question(nearest_name(name, candidates), otherwise);
}

std::string suggestion(std::string_view word,
                       std::span<const std::string> candidates,
                       std::string_view otherwise) {
  return question(nearest(word, candidates), otherwise);
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

std::string one_of(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace troupe::config
