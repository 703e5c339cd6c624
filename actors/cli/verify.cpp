#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "actors/artefacts/png.h"
#include "actors/cli/compare_files.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/isa_in_force.h"
#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/json_fields.h"
#include "actors/cli/json_rows.h"
#include "actors/cli/notes.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/verbs.h"
#include "config/load_config.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

enum class Verdict : std::uint8_t { same, different, another_class, unknown };

struct Finding {
  std::string path;
  Verdict verdict = Verdict::different;
  std::string detail = {};
  std::optional<Error> error = {};        ///< why it is unknown
  std::optional<Distance> distance = {};  ///< of the elements or pixels
  /// Execution classes, of a recipe that was run again.
  std::string class_here = {};
  std::string class_there = {};
  /// Whether it was made at another level (--isa) than this run computes at.
  bool has_other_level = false;
};

/// Whether the files are the same; unset: it could not be told.
std::optional<bool> is_same(Verdict verdict) {
  return verdict == Verdict::same || verdict == Verdict::different
             ? std::optional(verdict == Verdict::same)
             : std::nullopt;
}

void visit_fields(auto& visit, AnyConst<Finding> auto& r) {
  visit({"path", "as given"}, r.path);
  visit(or_null({"same", "null: it could not be told"}), is_same(r.verdict));
  visit({"detail", "what was found"}, r.detail);
  visit_part(visit, r.distance);
  visit(if_any({"execution_class", "of this run; absent if no recipe was run"}),
        r.class_here);
  visit(if_any({"recipe_execution_class",
                "of the image; absent if no recipe was run"}),
        r.class_there);
  visit({"error", "why it could not be told; absent otherwise"}, r.error);
}

struct Verified {
  std::vector<Finding> files;
  std::vector<std::string> notes;
};

void visit_fields(auto& visit, AnyConst<Verified> auto& r) {
  visit({"files", "one per file, in their order"}, r.files);
  visit({"notes", "what the user should know"}, r.notes);
}

/// Keeps the pixels of the one sample of a job.
struct PictureObserver final : Observer {
  void on_sample(const SampleOutcome& ended) override { outcome = ended; }

  SampleOutcome outcome;
};

/// --tolerance, but only as a flag: a file or variable means picard's.
std::optional<double> tolerance_of(const config::Config& config) {
  return config.is_flag("tolerance") ? config.method.tolerance : std::nullopt;
}

/// What holds for several files is said once.
void print_new_notes(const JobRequest& request,
                     std::vector<std::string>& said) {
  for (const std::string& note : request.notes) {
    if (std::ranges::find(said, note) == said.end()) {
      print_notes({note});
      said.push_back(note);
    }
  }
}

/// Lines for each of many files would bury what was found: a bar or what was
/// asked for.
config::ProgressKind bar_kind(const config::Config& config) {
  const config::ProgressKind kind = progress_kind(config);
  return kind == config::ProgressKind::automatic && !can_redraw(stderr)
             ? config::ProgressKind::none
             : kind;
}

/// What computed an image: what encoded its prompt, too.
std::string classes_of(const config::Recipe& recipe) {
  return recipe.encoder_class
             ? recipe.execution_class + " after " + *recipe.encoder_class
             : recipe.execution_class;
}

/// Adds both classes to what was found. Bytes of two classes cannot be
/// compared, so different bytes mean nothing then. Different weights are still
/// a difference, though they are a part of the class.
Finding of_classes(Finding finding, bool same_weights) {
  if (finding.class_here == finding.class_there) {
    finding.detail += ", execution class " + finding.class_here;
    return finding;
  }
  finding.detail += fmt::format("; execution class {} here, {} in the recipe",
                                finding.class_here, finding.class_there);
  if (finding.verdict == Verdict::different && same_weights) {
    finding.verdict = Verdict::another_class;
    finding.detail +=
        ": another machine, build, dtype or method; bytes cannot be compared";
  }
  return finding;
}

Finding judge(const std::string& path, const Image& image,
              const config::Recipe& there, const SampleOutcome& outcome,
              const JobRunner& runner) {
  const config::Recipe here =
      runner.recipe_of(outcome.report.sample_index, outcome.latents,
                       outcome.report.execution_class);
  const bool same_weights = here.weights_xxh3 == there.weights_xxh3;
  Finding finding{
      .path = path,
      .class_here = classes_of(here),
      .class_there = classes_of(there),
      .has_other_level = here.isa && there.isa && here.isa != there.isa};
  const Image again = to_image(outcome.pixels);
  if (again.rgb.size() == image.rgb.size() && again.stored == image.stored) {
    finding.distance = distance_of(again, image);
  }
  if (here.latents_xxh3 != there.latents_xxh3) {
    finding.detail = fmt::format(
        "latents {} against {} in the recipe{}", here.latents_xxh3,
        there.latents_xxh3,
        same_weights ? "" : "; the weights or their configuration are others");
  } else if (here.vae_tile != there.vae_tile && again.rgb != image.rgb) {
    finding.detail = "same latents, but not decoded in the same tiles";
  } else if (again.rgb != image.rgb || again.stored != image.stored) {
    finding.detail = "same latents, but the picture was changed";
  } else {
    finding.verdict = Verdict::same;
    finding.detail = "latents " + here.latents_xxh3 + ", same pixels";
  }
  if (finding.distance && again.rgb != image.rgb) {
    finding.detail += "; pixels " + describe(*finding.distance, kOfPicture);
  }
  return of_classes(std::move(finding), same_weights);
}

Finding sample_again(Invocation& invocation, const std::string& path,
                     std::vector<std::string>& said) {
  const Image image = read_image(path);
  const config::Recipe recipe = runnable_recipe_in(path, image);
  require(recipe.init_latents_xxh3.empty(), Errc::unsupported, path,
          "the image was made from given latents, which its recipe cannot hold",
          "sample it anew with --from and --init-latents, then use --against");
  require(
      !recipe.prompt_embeds_xxh3, Errc::unsupported, path,
      "the image was made from given embeddings, which its recipe cannot hold",
      "sample it anew with --from and --prompt-embeds, then use --against");
  require(!recipe.guess_xxh3, Errc::unsupported, path,
          "the image was made with a given trajectory, which its recipe cannot "
          "hold",
          "sample it anew with --from and --guess-from, then use --against");
  config::Sources sources = invocation.sources;
  sources.recipe = config::to_settings(recipe, path);
  config::Config config = config::load_config(config::Verb::verify, sources);
  if (!names_level(invocation.config) &&
      !try_hold_as_recipe(config, invocation.isa_held)) {
    return {.path = path,
            .verdict = Verdict::another_class,
            .detail =
                "was not made at the level (--isa) that this run computes at: "
                "verify it alone",
            .has_other_level = true};
  }
  const JobRequest request = make_request(config, &recipe);
  print_new_notes(request, said);
  const JobRunner runner(request, *invocation.stop);
  PictureObserver picture;
  ProgressPrinter printer(bar_kind(config), stderr, SteadyClock().now());
  ProgressObserver progress(printer);
  const JobResult result = runner.run(
      {.observers = {&progress, &picture}, .stop = invocation.stop->token()});
  printer.finish();
  invocation.stop->check("verify", "stopped");
  if (result.failure) {
    throw to_error(*result.failure);
  }
  if (picture.outcome.report.failure) {
    throw to_error(*picture.outcome.report.failure);
  }
  return judge(path, image, recipe, picture.outcome, runner);
}

Finding check(Invocation& invocation, const std::string& path,
              std::vector<std::string>& said) {
  const std::string& other = invocation.config.against;
  if (other.empty()) {
    require(!tolerance_of(invocation.config), Errc::invalid_argument,
            "--tolerance", "a recipe that is run again gives the same bytes",
            "give it together with --against FILE");
    require(is_png_name(path), Errc::invalid_argument, path,
            "only images carry a recipe that can be run again",
            "give --against FILE to compare two files");
    return sample_again(invocation, path, said);
  }
  const Comparison found =
      compare_files(path, other, tolerance_of(invocation.config));
  return {.path = path,
          .verdict = found.same ? Verdict::same : Verdict::different,
          .detail = found.detail,
          .distance = found.distance};
}

/// A file that cannot be checked does not keep the others from being looked at.
Finding look_at(Invocation& invocation, const std::string& path,
                std::vector<std::string>& said) {
  try {
    return check(invocation, path, said);
  } catch (const Error& error) {
    if (error.code() == Errc::interrupted || error.code() == Errc::terminated) {
      throw;
    }
    return {path, Verdict::unknown, error.message(), error};
  }
}

void print(const Finding& finding) {
  constexpr std::array kWords = {"same", "DIFFERENT", "ANOTHER CLASS"};
  // Names and texts of a stranger's file stand in it.
  fmt::print("{}: {} ({})\n", printable(finding.path, kLongestLine),
             kWords.at(static_cast<std::size_t>(finding.verdict)),
             printable(finding.detail, kLongestLine));
}

/// What all files come to.
void add_totals(const std::vector<Finding>& findings, FileErrors& errors) {
  const auto different =
      std::ranges::count(findings, Verdict::different, &Finding::verdict);
  if (different > 0) {
    errors.add(
        {Errc::mismatch, "verify",
         fmt::format("{} of {} files differ", different, findings.size())});
  }
  const auto others =
      std::ranges::count(findings, Verdict::another_class, &Finding::verdict);
  if (others > 0) {
    const bool differ_in_level =
        std::ranges::any_of(findings, [](const Finding& finding) {
          return finding.verdict == Verdict::another_class &&
                 finding.has_other_level;
        });
    errors.add({Errc::another_class, "verify",
                fmt::format("{} of {} files were made by another execution "
                            "class: bytes cannot be compared",
                            others, findings.size()),
                differ_in_level ? "verify where they were made, or with the "
                                  "same build, --dtype and --isa"
                                : "verify where they were made, or with the "
                                  "same build and --dtype"});
  }
}

}  // namespace

std::vector<JsonField> verify_json_fields() { return json_rows_of<Verified>(); }

int run_verify(Invocation& invocation) {
  require(!invocation.files.empty(), Errc::invalid_argument, "verify",
          "nothing to verify", "give one or more images or tensor files");
  invocation.stop.emplace(*invocation.signals);
  const config::Config& config = invocation.config;
  Verified found;
  FileErrors errors;
  for (const std::string& path : invocation.files) {
    invocation.stop->check("verify", "stopped");
    const Finding& finding =
        found.files.emplace_back(look_at(invocation, path, found.notes));
    if (finding.error) {
      errors.add(*finding.error);
    } else if (!config.json && !config.quiet) {
      print(finding);
    }
  }
  add_totals(found.files, errors);
  return errors.finish(invocation, json_of(found));
}

}  // namespace troupe::actors
