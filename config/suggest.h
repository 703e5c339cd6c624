#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// Number of single-character edits (insert, delete, replace, swap of
/// neighbours) between two words, ignoring case.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate a mistyped word most likely meant, or empty when none is
/// near: at most a third of the letters wrong, or one word contained in the
/// other.
[[nodiscard]] std::string nearest(std::string_view word,
                                  std::span<const std::string> candidates);

/// "did you mean 'steps'?", or `otherwise` when no candidate is near.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string> candidates,
                                     std::string_view otherwise = {});

/// As `nearest`, of names of options or keys, whose words stand between '-' or
/// '_'. Each word is misspelt by itself: a name with another word in it, such
/// as "guidance-rescale" or "original-size", names another option.
[[nodiscard]] std::string nearest_name(std::string_view name,
                                       std::span<const std::string> candidates);

/// As `suggestion`, by nearest_name.
[[nodiscard]] std::string suggested_name(
    std::string_view name, std::span<const std::string> candidates,
    std::string_view otherwise = {});

/// The words of a list, which are separated by spaces.
[[nodiscard]] std::vector<std::string> words(std::string_view list);

/// "a, b or c".
[[nodiscard]] std::string one_of(std::span<const std::string> names);

/// "a, b, c" of at most `limit` names, then "… (N in all)".
[[nodiscard]] std::string join_names(std::span<const std::string> names,
                                     std::size_t limit = 16);

}  // namespace troupe::config
