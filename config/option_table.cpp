#include "config/option_table.h"

#include <algorithm>

namespace troupe::config {

const Option* find_option(std::string_view key) {
  std::string wanted(key);
  std::ranges::replace(wanted, '_', '-');
  for (const Option& option : option_table()) {
    if (option.key == wanted) {
      return &option;
    }
    for (const std::string& alias : parse_list("aliases", option.aliases)) {
      if (alias == wanted) {
        return &option;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> option_names(Verb verb) {
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    if (!option.serves(verb)) {
      continue;
    }
    names.emplace_back(option.key);
    for (std::string& alias : parse_list("aliases", option.aliases)) {
      names.push_back(std::move(alias));
    }
  }
  return names;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    names.emplace_back(option.key);
  }
  return names;
}

}  // namespace troupe::config
