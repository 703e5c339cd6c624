#include <algorithm>

#include "kernels/core/text.h"
#include "samplers/option_fields.h"
#include "samplers/parallel/method.h"

namespace troupe::samplers {

extern const MethodRow kSequential;
extern const MethodRow kBatch;
extern const MethodRow kCfg;
extern const MethodRow kPicard;
extern const MethodRow kPipeline;
extern const MethodRow kStale;

constinit const MethodKind MethodKind::sequential{kSequential};
constinit const MethodKind MethodKind::batch{kBatch};
constinit const MethodKind MethodKind::cfg{kCfg};
constinit const MethodKind MethodKind::picard{kPicard};
constinit const MethodKind MethodKind::pipeline{kPipeline};
constinit const MethodKind MethodKind::stale{kStale};

MethodTable method_table() {
  static constexpr MethodKind kTable[] = {
      MethodKind{kSequential}, MethodKind{kBatch},    MethodKind{kCfg},
      MethodKind{kPicard},     MethodKind{kPipeline}, MethodKind{kStale}};
  return kTable;
}

bool MethodRow::takes(std::string_view key) const {
  return has_word(options, key);
}

std::unique_ptr<Method> make_method(const MethodOptions& options,
                                    const Schedule& schedule) {
  return options.kind->make(options, schedule);
}

int num_parts(const MethodOptions& options) {
  return options.kind->parts == nullptr ? 1 : options.kind->parts(options);
}

int num_network_parts(const MethodOptions& options) {
  return options.kind->takes("segments") ? options.num_segments : 1;
}

int num_segments(const MethodOptions& options) {
  const int parts = num_network_parts(options);
  return options.cut == CutShape::onion ? 2 * parts - 1 : parts;
}

int part_of_segment(const MethodOptions& options, int segment) {
  return takes_skips(options, segment) ? num_segments(options) - 1 - segment
                                       : segment;
}

bool keeps_skips(const MethodOptions& options, int segment) {
  return options.cut == CutShape::onion &&
         segment + 1 < num_network_parts(options);
}

bool takes_skips(const MethodOptions& options, int segment) {
  return options.cut == CutShape::onion &&
         segment >= num_network_parts(options);
}

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
