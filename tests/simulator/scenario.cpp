#include "tests/simulator/scenario.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "kernels/core/text.h"
#include "samplers/parallel/method_row.h"

namespace troupe::actors::simulator {
namespace {

using samplers::MethodKind;
using samplers::MethodOptions;

/// The schedule draws noise in its steps if the method needs that.
const samplers::Schedule& schedule_of(MethodKind kind, int steps) {
  const double eta = kind == MethodKind::speculative ? 1.0 : 0.0;
  static std::map<std::pair<int, double>,
                  std::unique_ptr<const samplers::Schedule>>
      schedules;
  std::unique_ptr<const samplers::Schedule>& schedule = schedules[{steps, eta}];
  if (!schedule) {
    samplers::ScheduleOptions options;
    options.num_inference_steps = steps;
    options.eta = eta;
    schedule = std::make_unique<const samplers::Schedule>(options);
  }
  return *schedule;
}

/// A method's row alone, and what its options can change in its shape.
std::vector<MethodOptions> varieties(MethodKind kind) {
  std::vector<MethodOptions> all{{.kind = kind}};
  if (kind.takes("window")) {
    all = {{.kind = kind, .window_size = 2},
           {.kind = kind,
            .window_size = 3,
            .num_outputs = 2,
            .iterations = 2,
            .has_early_results = true},
           {.kind = kind, .window_size = 4, .anchor = samplers::Anchor::fresh}};
  }
  if (kind.takes("tolerance")) {
    all = {{.kind = kind, .window_size = 4},
           {.kind = kind, .window_size = 8, .tolerance = 0.1},
           {.kind = kind,
            .window_size = 5,
            .tolerance = 0.1,
            .initial_guess = samplers::InitialGuess::trajectory},
           {.kind = kind,
            .window_size = 6,
            .tolerance = 0.05,
            .initial_guess = samplers::InitialGuess::linear_x0,
            .accept = samplers::Accept::settled,
            .memory = 4}};
  }
  if (kind.takes("segments")) {
    all = {{.kind = kind, .num_segments = 2},
           {.kind = kind, .num_segments = 4}};
  }
  if (kind.takes("cut")) {
    all.push_back(
        {.kind = kind, .num_segments = 3, .cut = samplers::CutShape::onion});
  }
  if (kind.takes("stale-at")) {
    all.push_back({.kind = kind,
                   .num_segments = 3,
                   .stale_at = samplers::StaleAt::latents});
  }
  if (kind.takes("stride")) {
    all.push_back({.kind = kind, .num_segments = 2, .stride = 2});
    all.push_back({.kind = kind,
                   .num_segments = 3,
                   .ages = {2, 1},
                   .warmup_steps = 3,
                   .final_fresh_steps = 2});
  }
  if (has_word(kind->modifiers, "cache")) {
    const std::size_t plain = all.size();
    for (std::size_t i = 0; i < plain; ++i) {
      all.push_back(all[i]);
      all.back().kind = kind.with(samplers::Modifier::cache);
    }
  }
  return all;
}

std::vector<Variant> make_variants() {
  std::vector<Variant> all;
  for (const MethodKind kind : samplers::method_table()) {
    for (const MethodOptions& method : varieties(kind)) {
      for (const int steps : {12, 17}) {
        all.push_back({method, &schedule_of(kind, steps), all.size()});
      }
    }
  }
  return all;
}

const Variant& variant_of(std::uint64_t seed, Random& random) {
  const samplers::MethodTable table = samplers::method_table();
  const MethodKind kind = table[seed % table.size()];
  std::vector<const Variant*> choices;
  for (const Variant& variant : variants()) {
    if (variant.method.kind->name == kind->name) {
      choices.push_back(&variant);
    }
  }
  return *choices[random.below(choices.size())];
}

/// Some are twice or four times as slow.
void add_worker(Scenario& scenario, int execution_class, int process,
                Random& random) {
  WorkerTraits traits;
  traits.execution_class = execution_class;
  traits.max_rows = scenario.max_rows;
  traits.process = process;
  scenario.workers.push_back(traits);
  DeviceModel device;
  const int slowness = 1 << random.below(3);
  device.fixed *= slowness;
  device.per_row *= slowness;
  scenario.devices.push_back(device);
  scenario.delays.emplace_back();
}

/// In one job of four they are of two execution classes.
void add_workers(Scenario& scenario, Random& random) {
  const int count = random.between(4, 8);
  const bool two_classes = random.chance(0.25);
  for (int w = 0; w < count; ++w) {
    const bool is_other = two_classes && w >= count / 2;
    add_worker(scenario, is_other ? 1 : 0, kHomeProcess, random);
  }
  scenario.num_at_start = count;
}

/// Spreads workers over processes: all in one process, one per process, two per
/// process, or one per process with none in the coordinator's.
void add_processes(Scenario& scenario, bool is_linked, Random& random) {
  const int kind = random.between(is_linked ? 1 : 0, 3);
  for (std::size_t w = 0; w < scenario.workers.size(); ++w) {
    const int number = static_cast<int>(w);
    scenario.workers[w].process = kind == 0   ? 0
                                  : kind == 1 ? number
                                  : kind == 2 ? number / 2
                                              : number + 1;
  }
  scenario.num_processes = scenario.workers.back().process + 1;
}

/// What the job would take if all workers were busy all the time.
Duration undisturbed_span(const Scenario& scenario) {
  double rows_per_second = 0;
  for (const DeviceModel& device : scenario.devices) {
    rows_per_second +=
        1.0 /
        std::chrono::duration<double>(device.fixed + device.per_row).count();
  }
  const double rows =
      scenario.num_samples * scenario.variant->schedule->num_model_calls();
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(rows / rows_per_second));
}

/// Processes with up to three workers of one class, in one case of four a new
/// one. Their workers meet faults as others do.
void add_joins(Scenario& scenario, const FaultRates& rates, Duration span,
               Random& random) {
  int num_classes = scenario.workers.back().execution_class + 1;
  for (const TimePoint when : plan_joins(rates, span, random)) {
    const auto first = static_cast<int>(scenario.workers.size());
    scenario.faults.push_back(
        {.kind = FaultKind::join, .when = when, .worker = first});
    const int execution_class = random.chance(0.25)
                                    ? num_classes++
                                    : random.between(0, num_classes - 1);
    const int count = random.between(1, 3);
    for (int w = 0; w < count; ++w) {
      add_worker(scenario, execution_class, scenario.num_processes, random);
    }
    ++scenario.num_processes;
    std::ranges::move(plan_faults(rates, first, count, 0, span, random),
                      std::back_inserter(scenario.faults));
  }
  std::ranges::stable_sort(scenario.faults, {}, &Fault::when);
}

/// In half of the jobs. Some processes have room for one sample alone.
void add_value_budgets(Scenario& scenario, Random& random) {
  scenario.value_budgets.assign(
      static_cast<std::size_t>(scenario.num_processes), 0);
  if (random.chance(0.5)) {
    return;
  }
  for (int process = 0; process < scenario.num_processes; ++process) {
    const std::uint64_t each = sample_bytes(scenario, process, kMostAhead);
    scenario.value_budgets[static_cast<std::size_t>(process)] =
        each + random.below(3 * each);
  }
}

/// In one job of four, some workers come up when others have begun.
/// A cut takes two messages: by chance few processes would end in one.
void aim_ends_at_cuts(Scenario& scenario, Random& random) {
  for (Fault& fault : scenario.faults) {
    fault.in_cut = fault.kind == FaultKind::end_process && random.chance(0.5);
  }
}

void delay_starts(Scenario& scenario, Random& random) {
  if (random.chance(0.25)) {
    for (Duration& delay : scenario.delays) {
      if (random.chance(0.5)) {
        delay = random.between(Duration{}, 4 * scenario.pulse);
      }
    }
  }
}

/// From processes of one machine to hosts that are far from each other.
LinkPlan plan_links(const Scenario& scenario, const LinkFaultRates& rates,
                    Duration span, Random& random) {
  LinkPlan links;
  const int distance = random.between(0, 2);
  links.net.latency *= distance == 0 ? 1 : distance == 1 ? 10 : 100;
  links.net.jitter *= distance == 0 ? 1 : 10;
  links.net.bytes_per_second *= random.chance(0.5) ? 1 : 8;
  links.faults = plan_link_faults(rates, scenario.num_processes - 1, span,
                                  links.times.lease, random);
  return links;
}

Scenario drawn_scenario(std::uint64_t seed, const FaultRates& rates,
                        const LinkFaultRates* link_rates) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.variant = &variant_of(seed, random);
  scenario.num_samples = random.between(20, 28);
  scenario.max_rows = 1 << random.below(4);
  scenario.decode = random.chance(0.5);
  add_workers(scenario, random);
  add_processes(scenario, link_rates != nullptr, random);
  const Duration span = undisturbed_span(scenario);
  scenario.faults = plan_faults(rates, 0, scenario.num_at_start,
                                scenario.num_samples, span, random);
  if (random.chance(0.25) && link_rates == nullptr) {
    // Most jobs have more events.
    scenario.rebuild_at = 1 + random.below(6000);
  }
  add_joins(scenario, rates, span, random);
  delay_starts(scenario, random);
  scenario.is_observed = Random(split_mix(seed)).chance(0.5);
  add_value_budgets(scenario, random);
  if (link_rates == nullptr) {
    aim_ends_at_cuts(scenario, random);
  } else {
    // A worker's lease is longer than a link's.
    scenario.lease.least = std::chrono::seconds(3);
    scenario.links = plan_links(scenario, *link_rates, span, random);
  }
  return scenario;
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = make_variants();
  return all;
}

Scenario make_scenario(std::uint64_t seed, const FaultRates& rates) {
  return drawn_scenario(seed, rates, nullptr);
}

Scenario make_linked_scenario(std::uint64_t seed, const FaultRates& rates,
                              const LinkFaultRates& link_rates) {
  return drawn_scenario(seed, rates, &link_rates);
}

std::uint64_t sample_bytes(const Scenario& scenario, int process,
                           int max_open) {
  const Variant& variant = *scenario.variant;
  const int calls = variant.schedule->num_model_calls();
  const ValueSizes& sizes = scenario.value_sizes;
  const std::uint64_t bytes =
      bytes_of(samplers::most_live(variant.method, calls, max_open), sizes);
  const auto previews = static_cast<std::uint64_t>(calls / kPreviewEvery + 1);
  const std::uint64_t observed =
      static_cast<std::uint64_t>(calls) * sizes.state +
      previews * (sizes.state + sizes.output);
  return bytes * (process == kHomeProcess ? 3 : 2) +
         (scenario.is_observed ? observed : 0);
}

std::string to_string(const Scenario& scenario) {
  const Variant& variant = *scenario.variant;
  return "seed " + std::to_string(scenario.seed) + ": " +
         std::string(variant.method.kind->name) + " (variant " +
         std::to_string(variant.number) + "), " +
         std::to_string(scenario.num_samples) + " samples, " +
         std::to_string(scenario.num_at_start) + " workers and " +
         std::to_string(static_cast<int>(scenario.workers.size()) -
                        scenario.num_at_start) +
         " that join in " + std::to_string(scenario.num_processes) +
         " processes, " + std::to_string(scenario.faults.size()) + " faults" +
         (scenario.is_observed ? ", observed" : "") +
         (scenario.links ? ", linked, with " +
                               std::to_string(scenario.links->faults.size()) +
                               " faults of links"
                         : "");
}

}  // namespace troupe::actors::simulator
