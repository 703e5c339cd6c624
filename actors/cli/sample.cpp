#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "actors/cli/artefact_observer.h"
#include "actors/cli/dry_run.h"
#include "actors/cli/earlier_run.h"
#include "actors/cli/encoding_company.h"
#include "actors/cli/execution_class.h"
#include "actors/cli/job_company.h"
#include "actors/cli/job_layout.h"
#include "actors/cli/job_metrics.h"
#include "actors/cli/job_of_request.h"
#include "actors/cli/job_request.h"
#include "actors/cli/job_runner.h"
#include "actors/cli/link_options.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/notes.h"
#include "actors/cli/pass_times.h"
#include "actors/cli/progress_printer.h"
#include "actors/cli/required_class.h"
#include "actors/cli/run_outputs.h"
#include "actors/cli/run_report.h"
#include "actors/cli/verbs.h"
#include "config/enum_names.h"
#include "config/load_config.h"
#include "config/schedule_options.h"
#include "kernels/core/hash.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

void fill_method(const JobRequest& request, RunSummary& summary) {
  const samplers::MethodOptions& method = request.job.method;
  summary.method = to_string(method.kind);
  summary.workers_per_image =
      method.kind->spreads ? 0 : samplers::num_parts(method);
  summary.useful_workers =
      method.kind->useful_workers(method, request.num_samples());
}

void describe(const JobRequest& request, RunSummary& summary) {
  fill_method(request, summary);
  summary.cut = config::cut_name(request.job.method);
  summary.sampler = config::solver_label(request.schedule.options());
  summary.steps = request.schedule.num_steps();
  summary.guidance = request.job.guidance.scale;
  summary.workers = request.num_workers();
  summary.threads = request.num_threads;
  summary.shards = request.num_shards;
  summary.dtype = request.dtypes();
  summary.notes = request.notes;
  for (const JobDevice& device : request.devices) {
    if (device.is_used()) {
      summary.devices.push_back({device.label(), "used", {}});
      if (device.is_gpu()) {
        summary.bits = bits_mode(device.options);
      }
    }
  }
}

void fill_images(const JobRequest& request, const RunOutputs& outputs,
                 std::map<std::uint64_t, ImageSummary> all,
                 const JobResult& result, RunSummary& summary) {
  for (const EarlierImage& earlier : outputs.skipped) {
    const std::uint64_t index = earlier.index;
    all.emplace(index,
                ImageSummary{.index = index,
                             .seed = request.seed_of(index),
                             .class_id = request.class_of(index),
                             .class_name = request.source.class_name(
                                 request.class_of(index)),
                             .prompt = request.prompt_of(index),
                             .path = outputs.images->path(index).string(),
                             .latents_xxh3 = earlier.latents_xxh3,
                             .status = "skipped",
                             .execution_class = earlier.execution_class});
  }
  for (const SampleReport& report : result.samples) {
    const bool is_failed = report.status == SampleStatus::failed;
    if (is_failed || report.status == SampleStatus::cancelled) {
      all.emplace(
          report.sample_index,
          ImageSummary{
              .index = report.sample_index,
              .seed = request.seed_of(report.sample_index),
              .class_id = request.class_of(report.sample_index),
              .prompt = request.prompt_of(report.sample_index),
              .status = is_failed ? "failed" : "cancelled",
              .message = is_failed ? report.failure.value().message : ""});
    }
  }
  for (auto& [index, image] : all) {
    if (summary.execution_class != "mixed" && image.status != "skipped") {
      image.execution_class.clear();  // it is the job's
    }
    summary.images.push_back(std::move(image));
  }
}

void fill_figures(const JobRunner& runner, const RunOutputs& outputs,
                  ArtefactObserver& artefacts, const JobResult& result,
                  RunSummary& summary) {
  summary.nfe = result.nfe;
  summary.rounds = result.rounds;
  summary.reused = result.reused;
  summary.recoveries =
      result.recoveries + static_cast<std::int64_t>(runner.lost().size());
  summary.encode_seconds = runner.encode_seconds();
  if (!runner.encoded_by().execution_class.empty()) {
    summary.encoder_device = config::name_of(runner.encoded_by().device);
  }
  summary.load_seconds = runner.load_seconds();
  summary.compute_seconds = result.compute_seconds;
  summary.images_per_second =
      result.wall_seconds > 0
          ? static_cast<double>(artefacts.images().size()) / result.wall_seconds
          : 0;
  summary.peak_memory_bytes = peak_rss_bytes();
  std::set<std::string> classes = classes_there(outputs);
  for (const auto& [index, image] : artefacts.images()) {
    classes.insert(image.execution_class);
  }
  summary.execution_class =
      classes.empty() ? runner.execution_classes().front() : one_class(classes);
  summary.latents_xxh3 = artefacts.latents_xxh3();
}

/// Images of this job that a second run wrote in the meantime.
std::vector<EarlierImage> kept_images(const ArtefactObserver& artefacts) {
  std::vector<EarlierImage> kept;
  for (const auto& [index, image] : artefacts.images()) {
    if (image.status == "skipped") {
      kept.push_back(
          {.index = index, .execution_class = image.execution_class});
    }
  }
  return kept;
}

/// "; --grid and --trace were not written", or nothing.
std::string not_written(const std::vector<std::string>& flags) {
  return flags.empty()
             ? std::string()
             : fmt::format("; {} {} not written", fmt::join(flags, " and "),
                           flags.size() == 1 ? "was" : "were");
}

/// What the run's end means. Errors: thrown, so that every verb reports alike.
void judge(const Invocation& invocation, const JobRequest& request,
           const RunOutputs& outputs, const JobResult& result,
           const std::vector<std::string>& left_out) {
  const std::uint64_t done = result.count(SampleStatus::done);
  const std::uint64_t wanted = request.num_samples() - outputs.skipped.size() -
                               result.count(SampleStatus::cancelled);
  const std::optional<Errc> signal = invocation.signals->received();
  if (signal && done < wanted) {
    const std::string next = how_to_go_on(invocation.config, request, outputs);
    const std::string by = invocation.signals->cancelled_by();
    throw Error(
        *signal, "sample",
        fmt::format("{} after {} of {} images{}",
                    by.empty() ? "stopped" : "cancelled by " + by, done, wanted,
                    not_written(left_out)),
        next.empty() ? "give --out to keep finished images next time" : next);
  }
  if (result.failure) {
    throw to_error(*result.failure);
  }
  const std::uint64_t failed = result.count(SampleStatus::failed);
  if (failed > 0) {
    const auto first = std::ranges::find(result.samples, SampleStatus::failed,
                                         &SampleReport::status);
    const Failure& cause = first->failure.value();
    if (done == 0) {
      throw to_error(cause);
    }
    throw Error(Errc::items_failed, cause.place,
                fmt::format("{} of {} images failed, the first is {}: {}",
                            failed, wanted, first->sample_index, cause.message),
                cause.hint);
  }
}

/// For the files of --save. Errors: those of RowFile::check_room.
void check_room(const JobRequest& request, const RunOutputs& outputs) {
  if (!outputs.latents.empty()) {
    RowFile::check_room("--save latents", outputs.latents,
                        latent_rows(request));
  }
  if (!outputs.trajectory.empty()) {
    const samplers::MethodOptions& method = request.job.method;
    const samplers::MethodKind kind = method.kind;
    require(kind->skips_points == nullptr || !kind->skips_points(method),
            Errc::unsupported, "--save",
            "a trajectory has a point for each model call, and " +
                to_string(kind) + " goes past some",
            "leave trajectory=FILE out, or use another --method");
    RowFile::check_room("--save trajectory", outputs.trajectory,
                        trajectory_rows(request));
  }
}

/// Latents of other kinds are no picture without their decoder.
void check_pictures(const config::Config& config, const ModelSource& source) {
  const std::int64_t channels = source.latent_shape()[0];
  const bool wants =
      !config.out.empty() || !config.grid.empty() || !config.preview.empty();
  if (!wants) {
    return;
  }
  require(!models::LatentGeometry::of(source.pixel_shape()).frames,
          Errc::invalid_argument, source.name(),
          "the model makes no still pictures: got samples of " +
              to_string(source.pixel_shape()),
          "use --save latents=FILE");
  require(source.decoder() || channels == 1 || channels == 3,
          Errc::invalid_argument, source.name(),
          fmt::format("the model has no autoencoder (vae/) to make pictures: "
                      "got {} latent channels, expected 1 or 3",
                      channels),
          "give the whole pipeline's folder, or --save latents=FILE");
  const std::int64_t colours = source.pixel_shape()[0];
  require(
      colours == 1 || colours == 3, Errc::unsupported, source.name(),
      fmt::format("the autoencoder's pictures cannot be written as PNG: got "
                  "{} channels (out_channels), expected 1 or 3",
                  colours),
      "use --save latents=FILE alone");
}

std::vector<std::uint64_t> indices_of(const std::vector<EarlierImage>& images) {
  std::vector<std::uint64_t> indices;
  for (const EarlierImage& image : images) {
    indices.push_back(image.index);
  }
  return indices;
}

struct Run {
  JobResult result;
  std::optional<Failure> unwritten;  ///< an output that could not be written
  double wall_seconds = 0;
};

Run sample(Invocation& invocation, const JobRequest& request,
           const JobRunner& runner, const RunOutputs& outputs,
           ArtefactObserver& artefacts, StopFlag& stop, JobMetrics* metrics) {
  const std::stop_callback action(stop.token(),
                                  [&artefacts] { artefacts.request_stop(); });
  const SteadyClock clock;
  const TimePoint start = clock.now();
  ProgressPrinter printer(progress_kind(invocation.config), stderr, start);
  ProgressObserver progress(printer);
  const std::vector<std::uint64_t> skip = indices_of(outputs.skipped);
  Run run;
  JobCompany company(
      invocation.config, request, runner,
      {.observers = {&progress, &artefacts},
       .stop = stop.token(),
       .skip = skip,
       .decode = outputs.pictures(),
       .preview_every = outputs.preview ? outputs.preview_every : 0,
       .trajectory = !outputs.trajectory.empty(),
       .trace = !outputs.trace.empty(),
       .on_class_change = invocation.config.on_class_change,
       .max_losses = invocation.config.max_losses,
       .keep_going = invocation.config.keep_going},
      [&invocation](const std::string& by) { invocation.signals->cancel(by); });
  const ShownJob shown(metrics, [&company] { return company.status(); });
  run.result = company.run();
  company.describe(run.result, invocation.summary);
  printer.finish();
  const bool is_cut_short =
      stop.is_set() &&
      std::ranges::any_of(run.result.samples, [](const auto& s) {
        return s.status == SampleStatus::unfinished;
      });
  run.unwritten = artefacts.finish(
      start,
      is_cut_short ? std::optional(ArtefactObserver::kSoonWritten)
                   : std::nullopt,
      company.traced());
  run.wall_seconds = std::chrono::duration<double>(clock.now() - start).count();
  return run;
}

/// What --save, --grid, --trace and --preview need beside the job itself.
void add_memory_of(const RunOutputs& outputs, bool dry_run,
                   JobRequest& request) {
  const JobDevice& last = request.devices.back();
  std::uint64_t more = held_bytes(outputs, request);
  int decodes = host_decodes(request);
  if (outputs.preview && !last.is_gpu()) {
    more += memory_needs(request.source, DeviceKind::cpu, last.compute)
                .decode_bytes;
    ++decodes;
  }
  request.required_bytes += more;
  set_value_budget(request);
  const MemoryInfo memory = memory_info();
  require(dry_run || request.required_bytes <= memory.available_bytes,
          Errc::out_of_memory, "memory",
          "the job does not fit with all that --save, --grid, --trace and "
          "--preview keep until the end: got " +
              human_bytes(memory.available_bytes) + " free, expected " +
              human_bytes(request.required_bytes) + " (" +
              to_string(memory.binding()) + ")",
          memory_hint(request.source, last.compute, decodes,
                      {memory.available_bytes, request.required_bytes},
                      "make fewer samples at a time with --samples A:B"));
}

/// Prints the summary as JSON, or calls `print_line`.
template <typename PrintLine>
int print_end(const Invocation& invocation, const PrintLine& print_line) {
  invocation.take_last_word();
  if (invocation.config.json) {
    fmt::print("{}\n", to_json(invocation.summary));
  } else if (!invocation.config.quiet) {
    print_line();
  }
  return invocation.summary.exit_code;
}

/// There are more tasks than images (--share).
int nothing_to_share(Invocation& invocation) {
  const config::Config& config = invocation.config;
  const std::string note = fmt::format(
      "{} has none of the images: there are fewer than {}",
      config.place_of("share"), counted(config.share.count, "part"));
  invocation.summary.notes.push_back(note);
  return print_end(invocation, [&] { fmt::print("{}\n", note); });
}

/// Everything is there but, perhaps, the sheet and the files of --save.
int nothing_to_do(Invocation& invocation, const JobRequest& request,
                  RunOutputs& outputs) {
  constexpr const char* kSays = "every image is there already";
  RunSummary& summary = invocation.summary;
  const std::uint64_t weights =
      read_weights_hash(request.source, *invocation.stop);
  check_weights(outputs, to_hex(weights));
  say_other_classes(outputs.skipped, execution_classes(request, weights),
                    summary.notes);
  write_sheet(outputs, {});
  summary.notes.emplace_back(kSays);
  summary.execution_class = one_class(classes_there(outputs));
  summary.latents_xxh3 = hash_of_earlier_rows(outputs);
  write_left_rows(request, outputs);
  fill_images(request, outputs, {}, {}, summary);
  note_missing_hash(summary);
  return print_end(invocation, [&] { fmt::print("{}\n", kSays); });
}

/// The job begins: who comes from now on changes nothing in its method.
void settle(Invocation& invocation, EncodingCompany& company,
            JobRequest& request) {
  const config::WorkerCount others = company.gather();
  company.dismiss(invocation.config);
  const bool was_open = request.is_method_open();
  request.notes.clear();  // they were said
  const samplers::MethodOptions before = request.job.method;
  settle_method(invocation.config, others, request);
  if (!is_same(before, request.job.method)) {
    add_note(request.notes, error_note(invocation.config, request));
  }
  print_notes(request.notes);
  std::ranges::copy(request.notes,
                    std::back_inserter(invocation.summary.notes));
  fill_method(request, invocation.summary);
  if ((was_open || invocation.config.wait_workers) &&
      !invocation.config.quiet) {
    say(stderr,
        fmt::format("troupe: the job begins: {}, with {} in other processes",
                    invocation.summary.method,
                    counted(static_cast<std::uint64_t>(others.cpu + others.gpu),
                            "worker")));
  }
}

}  // namespace

int run_sample(Invocation& invocation) {
  const std::optional<config::Recipe> recipe = take_recipe(invocation);
  const config::Config& config = invocation.config;
  if (config.print_job) {
    // Nothing is computed and nothing is written, as with --dry-run.
    invocation.config.dry_run = true;
  }
  check_listening(config);
  const std::unique_ptr<JobMetrics> metrics = make_metrics(config);
  const RequiredClass required = RequiredClass::of(config);
  read_prompt_files(invocation.config);
  JobRequest request = make_request(config, recipe ? &*recipe : nullptr);
  if (request.num_samples() == 0) {
    return nothing_to_share(invocation);
  }
  add_note(request.notes, error_note(config, request));
  // How many prompts a count stands for is known now.
  invocation.config.samples = request.samples();
  invocation.config.samples_per_prompt = false;
  RunSummary& summary = invocation.summary;
  describe(request, summary);
  const bool measures_only = request.source.is_random();
  require(config.dry_run || measures_only || !config.out.empty() ||
              !config.grid.empty() || !config.save.empty(),
          Errc::invalid_argument, "--out", "nothing would be kept",
          "give --out FILE.png (or a folder), --grid FILE.png or --save");
  check_pictures(config, request.source);
  StopFlag& stop = invocation.stop.emplace(*invocation.signals);
  RunOutputs outputs =
      prepare_outputs(config, request.source.pixel_shape(), stop);
  require(config.share.count == 1 || !outputs.images ||
              !outputs.images->is_one_file(),
          Errc::invalid_argument, config.place_of("out"),
          "one file for the images of all shares: got " + in_quotes(config.out),
          "give --out a folder, or a pattern such as {index:05}.png");
  add_memory_of(outputs, config.dry_run, request);
  find_earlier(config, request, outputs, stop);
  if (!config.print_job) {
    leave_out_prompts(indices_of(outputs.skipped), request);
  }
  if (!config.print_job && outputs.skipped.size() < request.num_samples()) {
    check_room(request, outputs);
  }
  if (config.dry_run && request.is_method_open()) {
    request.notes.push_back("--method auto takes " + describe_method(request));
  }
  summary.notes = request.notes;
  print_notes(request.notes);
  required.check_before_loading(request, outputs);
  if (config.print_job) {
    return print_job(invocation, request, required);
  }
  if (config.dry_run) {
    if (!required.name.empty()) {
      required.check(request, read_weights_hash(request.source, stop));
    }
    return run_dry(invocation, request, outputs);
  }
  if (outputs.skipped.size() == request.num_samples()) {
    return nothing_to_do(invocation, request, outputs);
  }
  const auto cancel = [&invocation](const std::string& by) {
    invocation.signals->cancel(by);
  };
  if (const auto note = choose_shard_plan(config, request, stop)) {
    print_notes({*note});
    summary.notes.push_back(*note);
  }
  EncodingCompany encoding(config, request, stop, cancel);
  const JobRunner runner(request, stop, encoding.elsewhere());
  check_weights(outputs, to_hex(runner.weights_hash()));
  required.check(request, runner.weights_hash());
  say_other_classes(outputs.skipped, runner.execution_classes(), summary.notes);
  if (recipe) {
    warn_of_others(*recipe, request, runner);
  }
  ArtefactObserver artefacts(config, request, runner, required, outputs);
  settle(invocation, encoding, request);
  const Run run = sample(invocation, request, runner, outputs, artefacts, stop,
                         metrics.get());
  summary.wall_seconds = run.wall_seconds;
  fill_figures(runner, outputs, artefacts, run.result, summary);
  report_lost(request, runner.lost(), summary);
  report_lost(request, run.result.lost, summary);
  report_cancelled(run.result, summary);
  say_other_classes(kept_images(artefacts), runner.execution_classes(),
                    summary.notes);
  for (const std::string& note :
       {artefacts.preview_note(), artefacts.trace_note()}) {
    if (!note.empty()) {
      print_notes({note});
      summary.notes.push_back(note);
    }
  }
  fill_images(request, outputs, artefacts.images(), run.result, summary);
  note_missing_hash(summary);
  if (run.unwritten) {
    throw lost_output(*run.unwritten, config, request, outputs);
  }
  judge(invocation, request, outputs, run.result, artefacts.left_out());
  return print_end(invocation, [&] {
    print_result(summary, outputs, describe_company(request), measures_only);
  });
}

}  // namespace troupe::actors
