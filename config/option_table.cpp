#include "config/option_table.h"

#include <algorithm>
#include <iterator>

#include "config/option_rows.h"

namespace troupe::config {

std::span<const Option> option_table() {
  static const std::vector<Option> kTable = [] {
    std::vector<Option> all;
    for (const auto& part :
         {rows::sampling_rows(), rows::running_rows(), rows::machine_rows()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kTable;
}

std::string_view VerbText::of(Verb verb) const noexcept {
  const auto part = std::ranges::find_if(parts_, [&](const Part& candidate) {
    return has(candidate.verbs, verb);
  });
  return part == parts_.end() ? std::string_view() : part->text;
}

ValueKind Option::kind() const noexcept {
  if (is_switch() || value == "BOOL") {
    return ValueKind::truth;
  }
  if (value == "N" || value == "K" || value == "N|A:B") {
    return ValueKind::whole;
  }
  if (value == "X" || value == "W") {
    return ValueKind::real;
  }
  if (field.texts != nullptr) {
    return ValueKind::texts;
  }
  return value == "LIST" || value == "KIND=FILE" ? ValueKind::list
                                                 : ValueKind::text;
}

std::string default_of(const Option& option, Verb verb) {
  if (option.is_switch()) {
    return "off";
  }
  const std::string text = option.has_text() ? option.get(Config{}) : "";
  return text.empty() ? std::string(option.unset.of(verb)) : text;
}

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

std::vector<std::string> option_names(std::optional<Verb> verb) {
  std::vector<std::string> names;
  for (const Option& option : option_table()) {
    if (!verb || option.serves(*verb)) {
      names.emplace_back(option.key);
      std::ranges::move(parse_list("aliases", option.aliases),
                        std::back_inserter(names));
    }
  }
  return names;
}

}  // namespace troupe::config
