#include "samplers/options.h"

#include <vector>

#include "samplers/option_fields.h"

namespace troupe::samplers {

void apply_choices(const MethodChoices& choices, MethodOptions& options) {
  const auto put = [](FieldKey, const auto& choice, auto& option) {
    option = choice.value_or(option);
  };
  visit_choices(put, choices, options);
  if (choices.ages.size() == 1) {
    options.age = choices.ages.front();
  } else if (!choices.ages.empty()) {
    options.ages = choices.ages;
  }
  if (!choices.segment_speeds.empty()) {
    options.segment_speeds = choices.segment_speeds;
  }
}

MethodChoices choices_of(const MethodOptions& options) {
  MethodChoices choices;
  choices.kind = options.kind;
  const auto put = [](FieldKey, auto& choice, const auto& option) {
    choice = option;
  };
  visit_choices(put, choices, options);
  choices.segment_speeds = options.segment_speeds;
  choices.ages = options.ages.empty() ? std::vector{options.age} : options.ages;
  return choices;
}

}  // namespace troupe::samplers
