#include "config/method_names.h"

#include "config/option_rows.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::config {

using samplers::MethodKind;

std::vector<std::string> method_names(samplers::MethodTable table) {
  std::vector<std::string> names;
  for (const MethodKind kind : table) {
    names.emplace_back(kind->name);
  }
  return names;
}

std::optional<MethodKind> parse_method(std::string_view place,
                                       std::string_view text,
                                       samplers::MethodTable table) {
  std::vector<std::string> names = method_names(table);
  names.emplace_back("auto");
  const std::size_t index = parse_choice(place, text, names);
  return index < table.size() ? std::optional(table[index]) : std::nullopt;
}

std::vector<const Option*> options_of(MethodKind kind) {
  std::vector<const Option*> options;
  for (const Option& option : option_table()) {
    if (kind->takes(option.key)) {
      options.push_back(&option);
    }
  }
  return options;
}

std::vector<std::pair<std::string_view, std::string>> method_settings(
    const samplers::MethodOptions& options) {
  Config said;
  said.method = choices_of(options);
  std::vector<std::pair<std::string_view, std::string>> settings = {
      {"method", std::string(options.kind->name)}};
  for (const Option* option : options_of(options.kind)) {
    std::string text = option->get(said);
    if (!text.empty()) {
      settings.emplace_back(option->key, std::move(text));
    }
  }
  return settings;
}

void check_method_options(const Config& config, MethodKind kind) {
  for (const Option& option : option_table()) {
    if (option.group != rows::kMethodGroup || option.key == "method" ||
        kind->takes(option.key) || option.get(config).empty()) {
      continue;
    }
    std::string owners;
    for (const MethodKind owner : samplers::method_table()) {
      if (owner->takes(option.key)) {
        owners.append(owners.empty() ? "" : " or ").append(owner->name);
      }
    }
    throw Error(Errc::invalid_argument,
                config.place_of(std::string(option.key)),
                "this is an option of --method " + owners + ": got method " +
                    std::string(kind->name),
                "leave it out, or choose that method");
  }
}

}  // namespace troupe::config
