#include "actors/cli/json_fields.h"

#include <array>
#include <optional>

#include "actors/artefacts/summary.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/method_figures.h"
#include "config/recipe.h"
#include "config/recipe_fields.h"

namespace troupe::actors {
namespace {

std::vector<JsonField> every_json_fields() {
  JsonRows rows;
  const RunSummary example;
  visit_envelope(rows, example);
  rows(kErrorKey, std::optional<Error>{});
  return std::move(rows).rows();
}

/// A job that runs.
std::vector<JsonField> ls_json_fields() {
  return json_rows_of<JobStatus>(
      {{"nodes[].process", "its number in the job; 0: it directs"},
       {"nodes[].status", "here, or left"}});
}

std::vector<JsonField> recipe_json_fields() {
  const config::Recipe recipe;
  JsonRows rows;
  rows.add("schema", "integer",
           "1; changes when an old reader would misread it");
  config::visit_recipe(rows, recipe);
  rows.begin("method", "what of the method decides the bytes");
  samplers::visit_method(rows, recipe.method);
  rows.begin("schedule", "the noise schedule, resolved");
  samplers::visit_schedule(rows, recipe.schedule);
  return std::move(rows).rows();
}

}  // namespace

std::span<const JsonSection> json_sections() {
  static const std::array sections = {
      JsonSection{"every verb",
                  "One object, on the last line of stdout. On failure too.",
                  every_json_fields()},
      JsonSection{"sample",
                  "The run, as far as it came. Absent where the command line "
                  "could not be read.",
                  json_rows_of<RunSummary>()},
      JsonSection{"sample --print-job",
                  "The job as workers get it: one object, over many lines "
                  "without --json.",
                  job_json_fields()},
      JsonSection{
          "schedule",
          "The tables. Of a single one the fields stand at the top too.",
          schedule_json_fields()},
      JsonSection{"inspect", "What the paths hold.", inspect_json_fields()},
      JsonSection{"verify", "What was compared.", verify_json_fields()},
      JsonSection{"bench", "What was measured.", bench_json_fields()},
      JsonSection{"bench methods",
                  "What was compared. Also results.json, over many lines.",
                  bench_methods_json_fields()},
      JsonSection{"methods.json", "What bench methods --calibrate writes.",
                  json_rows_of<MethodFigures>()},
      JsonSection{"doctor", "This machine and build.", doctor_json_fields()},
      JsonSection{"keys", "What was made. No key is ever printed.",
                  keys_json_fields()},
      JsonSection{"encode", "The file of encoded prompts.",
                  encode_json_fields()},
      JsonSection{"ls",
                  "How the job stands. With --follow one line for each look.",
                  ls_json_fields()},
      JsonSection{"cancel", "What became of it.", cancel_json_fields()},
      JsonSection{"--progress json",
                  "Lines on stderr while a job runs, one object each.",
                  progress_json_fields()},
      JsonSection{"recipe",
                  "Text chunk of every image, and items[].recipe of inspect. "
                  "Keys of schedule are those of diffusers' scheduler configs.",
                  recipe_json_fields()},
  };
  return sections;
}

}  // namespace troupe::actors
