#include <numeric>

#include "kernels/core/text.h"
#include "samplers/parallel/cache.h"
#include "samplers/parallel/method.h"
#include "samplers/parallel/plan.h"

namespace troupe::samplers {

MethodTable method_table() {
  static const MethodKind kTable[] = {
      MethodKind::sequential, MethodKind::batch,      MethodKind::cfg,
      MethodKind::picard,     MethodKind::pipeline,   MethodKind::stale,
      MethodKind::draft,      MethodKind::chords,     MethodKind::parareal,
      MethodKind::taa,        MethodKind::speculative};
  return kTable;
}

bool MethodKind::takes(std::string_view key) const {
  for (std::size_t m = 0; m < std::size(kModifiers); ++m) {
    if (has(static_cast<Modifier>(m)) && has_word(kModifiers[m].options, key)) {
      return true;
    }
  }
  return has_word(row_->options, key);
}

std::string to_string(MethodKind kind) {
  std::string name(kind->name);
  for (std::size_t m = 0; m < std::size(kModifiers); ++m) {
    if (kind.has(static_cast<Modifier>(m))) {
      name.append("+").append(kModifiers[m].name);
    }
  }
  return name;
}

bool approximates(const MethodOptions& options) {
  const auto of_kind = options.kind->approximates;
  return (of_kind != nullptr && of_kind(options)) || leaves_out_blocks(options);
}

std::string_view note_of(const MethodOptions& options) {
  return approximates(options) ? options.kind->note_if_approximate
                               : options.kind->note_if_exact;
}

std::function<std::unique_ptr<Method>()> method_maker(
    const MethodOptions& options, const Schedule& schedule) {
  if (options.kind->check != nullptr) {
    options.kind->check(options, schedule);
  }
  if (options.kind->plan == nullptr) {
    return
        [options, &schedule] { return options.kind->make(options, schedule); };
  }
  return [plan = std::make_shared<const Plan>(options,
                                              schedule.num_model_calls())] {
    return std::make_unique<PlannedMethod>(plan);
  };
}

std::unique_ptr<Method> make_method(const MethodOptions& options,
                                    const Schedule& schedule) {
  return method_maker(options, schedule)();
}

std::vector<int> Method::points() const {
  std::vector<int> calls(static_cast<std::size_t>(accepted()) + 1);
  std::iota(calls.begin(), calls.end(), 0);
  return calls;
}

Turn turn_of(const MethodOptions& options, const TurnShape& shape) {
  return options.kind->plan == nullptr
             ? options.kind->turn(options, shape)
             : Plan(options, shape.num_calls).turn(shape);
}

double most_tasks(const MethodOptions& options, int num_calls) {
  return options.kind->plan == nullptr
             ? options.kind->most_tasks(options, num_calls)
             : Plan(options, num_calls).size();
}

LiveValues most_live(const MethodOptions& options, int num_calls,
                     int max_open) {
  return options.kind->plan == nullptr
             ? options.kind->most_live(options, num_calls, max_open)
             : Plan(options, num_calls).most_live(max_open);
}

int num_parts(const MethodOptions& options) {
  return options.kind->parts == nullptr ? 1 : options.kind->parts(options);
}

int num_network_parts(const MethodOptions& options) {
  return options.kind.takes("segments") ? options.num_segments : 1;
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

}  // namespace troupe::samplers
