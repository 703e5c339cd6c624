// A table file: one row per option.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "config/method_plan.h"
#include "config/option_rows.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::config::rows {
namespace {

/// "auto, sequential, … or stale": of the table.
const std::string& shown_methods() {
  static const std::string kShown = [] {
    std::vector<std::string> names = method_names();
    names.insert(names.begin(), "auto");
    return one_of(names) + "; NAME+cache leaves out blocks of the network " +
           "where their input hardly changed";
  }();
  return kShown;
}

/// Of a verb that measures several.
const std::string& shown_list_of_methods() {
  static const std::string kShown =
      shown_methods() + "; several with commas are compared";
  return kShown;
}

/// Several of bench's.
std::vector<samplers::MethodKind> parse_methods(Text place, Text text) {
  std::vector<samplers::MethodKind> methods;
  for (const std::string& name : parse_list(place, text)) {
    const std::optional<samplers::MethodKind> method =
        parse_method(place, name);
    require(method.has_value(), Errc::invalid_argument, place,
            "auto stands alone: got " + in_quotes(text), "name the methods");
    methods.push_back(*method);
  }
  return methods;
}

Field method_field() {
  return {[](Config& config, Text place, Text text) {
            config.methods.clear();
            if (text.find(',') == Text::npos) {
              config.method.kind = parse_method(place, text);
            } else {
              config.methods = parse_methods(place, text);
              config.method.kind = config.methods.front();
            }
          },
          [](const Config& config) -> std::string {
            const Method& method = config.method;
            if (!config.methods.empty()) {
              std::string names;
              for (const samplers::MethodKind kind : config.methods) {
                names.append(names.empty() ? "" : ",").append(to_string(kind));
              }
              return names;
            }
            if (method.kind) {
              return to_string(*method.kind);
            }
            return method.preset.empty() ? "auto" : "";
          }};
}

Field preset_field() {
  return parsed(&Method::preset, [](Text place, Text text) {
    const Names names = {"asyncdiff", "asyncdiff2"};
    return names[parse_choice(place, text, names)];
  });
}

std::vector<int> parse_ages(Text place, Text text) {
  std::vector<int> ages;
  for (const std::string& age : parse_list(place, text)) {
    ages.push_back(static_cast<int>(parse_integer(place, age, 0, kMany)));
  }
  return ages;
}

std::vector<double> parse_speeds(Text place, Text text) {
  std::vector<double> speeds;
  for (const std::string& speed : parse_list(place, text)) {
    speeds.push_back(parse_real(place, speed, 0.001, 1000));
  }
  return speeds;
}

Field max_rmse_field() {
  return parsed(&Config::max_rmse, [](Text place, Text text) {
    const double error = parse_real(place, text, 0, kHuge);
    require(error > 0, Errc::invalid_argument, place, "got 0, expected more",
            "leave it out for exact methods only");
    return error;
  });
}

/// In the words of other programs, too: "fp16", "torch.bfloat16".
Field dtype_field() {
  return parsed(&Config::compute, [](Text place, Text text) {
    constexpr std::pair<Text, Text> kOthers[] = {
        {"float32", "f32"},   {"fp32", "f32"},    {"float", "f32"},
        {"bfloat16", "bf16"}, {"float16", "f16"}, {"fp16", "f16"},
        {"half", "f16"}};
    Text name = trimmed(text);
    constexpr Text kTorch = "torch.";
    name.remove_prefix(name.starts_with(kTorch) ? kTorch.size() : 0);
    const auto* const other =
        std::ranges::find(kOthers, name, &std::pair<Text, Text>::first);
    return parse_enum<ComputeType>(
        place, other == std::end(kOthers) ? text : other->second);
  });
}

Field isa_field() {
  Field isa = parsed(&Config::isa, [](Text place, Text text) {
    return text == "auto" ? std::nullopt
                          : std::optional(parse_enum<IsaLevel>(place, text));
  });
  isa.get = [](const Config& config) {
    return config.isa ? name_of(*config.isa) : "auto";
  };
  return isa;
}

}  // namespace

std::span<const Option> running_rows() {
  static const auto kTable = std::to_array<Option>({
      {"method", "", 0, "NAME",
       by_verb({{kBench, std::string_view(shown_list_of_methods())},
                {kMethods, std::string_view(shown_methods())}}),
       kMethodGroup, often(kMethods), method_field(), "stale, of the preset"},
      {"preset", "", 0, "NAME", "asyncdiff (stride 1) or asyncdiff2 (stride 2)",
       kMethodGroup, often(kBench) | kMethods, preset_field(), "none"},
      {"max-rmse", "", 0, "X",
       "auto takes an approximate method, too, whose latents were measured to "
       "be at most X from the sequential run's (relative RMSE, median)",
       kMethodGroup, kSample, max_rmse_field(), "exact methods only"},
      {"method-table", "", 0, "FILE",
       "errors of methods, as bench methods measured them", kMethodGroup,
       kSample, field(&Config::method_table), "methods.json of the model"},
      {"window", "window-size", 0, "N",
       "picard, taa, draft, speculative: timesteps evaluated at once; chords: "
       "cores; parareal: blocks",
       kMethodGroup, often(kBench) | kMethods, whole(&Method::window_size, 1),
       "one per worker, from 2 to 8 (draft: to 3); 8 with --accept "
       "first_failing"},
      {"anchor", "", 0, "KIND",
       "draft: begin with the last draft's output (draft), or evaluate the "
       "refined point (fresh)",
       kMethodGroup, kMethods, field(&Method::anchor), "draft"},
      {"outputs", "num-outputs", 0, "N",
       "chords: outputs waited for; as many as cores: exact", kMethodGroup,
       kMethods, whole(&Method::num_outputs, 1), "1, the fastest core's"},
      {"iterations", "", 0, "N",
       "parareal: corrections; as many as blocks: exact", kMethodGroup,
       kMethods, whole(&Method::iterations, 1), "1"},
      {"memory", "", 0, "N", "taa: iterates that are mixed; 1: none, as picard",
       kMethodGroup, kMethods, whole(&Method::memory, 1), "2"},
      {"cache-threshold", "", 0, "X",
       "NAME+cache: how much of what the first block adds may change before "
       "all blocks run again, as a part of it; 0 is bit-equal to NAME",
       kMethodGroup, kMethods, real(&Method::cache_threshold, 0, kHuge),
       "0.025"},
      {"tolerance", "tol", 0, "X",
       by_verb({{kMethods,
                 "picard, taa: a point that changes less is final, 0 is "
                 "bit-equal to sequential"},
                {kVerify,
                 "with --against: values that differ by at most X times the "
                 "other file's largest |element| (of each tensor; 255 for "
                 "pictures) are the same"}}),
       kMethodGroup, often(kBench) | kMethods | kVerify,
       real(&Method::tolerance, 0, kHuge),
       by_verb({{kMethods, "0.02"}, {kVerify, "0"}})},
      {"carry", "", 0, "KIND", "picard: identity, coefficient or deviation",
       kMethodGroup, kMethods, field(&Method::carry),
       "deviation; identity with --accept first_failing"},
      {"guess", "initial-guess", 0, "KIND",
       "picard, taa: last_point, constant_x0, linear_x0, or trajectory (of "
       "--guess-from)",
       kMethodGroup, kMethods, field(&Method::initial_guess),
       "linear_x0; last_point with --accept first_failing"},
      {"guess-from", "", 0, "FILE",
       "picard, taa: guess by the trajectory that another run of this sampler "
       "and number of steps has saved",
       kMethodGroup, kMethods, field(&Config::guess_from), "none"},
      {"accept", "accept-rule", 0, "KIND",
       "picard: settled, or first_failing (ParaDiGMS)", kMethodGroup, kMethods,
       field(&Method::accept), "settled"},
      {"segments", "num-segments", 0, "N",
       "pipeline, stale: parts the network is cut in", kMethodGroup,
       often(kBench) | kMethods, whole(&Method::num_segments, 1),
       "one per worker, at least 2; stale: fewer in short runs"},
      {"segment-speeds", "", 0, "LIST",
       "pipeline, stale: how fast the workers are, relative to each other, "
       "from the first segment on; a faster one gets more of the network",
       kMethodGroup, kMethods, parsed(&Method::segment_speeds, parse_speeds),
       "equally fast"},
      {"cut", "", 0, "SHAPE",
       "pipeline, stale: chain, or onion: a worker has blocks and those that "
       "take their skips (UNet), so that skips cross no link",
       kMethodGroup, kMethods, field(&Method::cut), "the cheaper one"},
      {"stale-at", "", 0, "KIND",
       "stale: latents (the first part drafts those of its step) or cuts "
       "(AsyncDiff)",
       kMethodGroup, kMethods, field(&Method::stale_at),
       "latents; cuts with --preset or --stride 2"},
      {"ages", "age", 0, "LIST", "stale: steps by which each cut may lag",
       kMethodGroup, kMethods, parsed(&Method::ages, parse_ages),
       "1; with --stale-at latents 1 on one cut for each 16 network calls"},
      {"stride", "", 0, "N", "stale: steps per round, 1 or 2", kMethodGroup,
       kMethods, whole(&Method::stride, 1, 2), "1"},
      {"warmup", "warmup-steps", 0, "N",
       "stale, draft: exact model calls at the start (Heun: two a step)",
       kMethodGroup, kMethods, whole(&Method::warmup_steps, 0), "1"},
      {"final-fresh", "final-fresh-steps", 0, "N",
       "stale, draft: exact steps at the end", kMethodGroup, kMethods,
       whole(&Method::final_fresh_steps, 0),
       "0; a tenth of the model calls with --stale-at cuts"},
      {"device", "devices", 0, "LIST",
       "auto, cpu, cuda (all GPUs), cuda:N, or several with commas", kResources,
       often(kSample | kBench) | kComputes | kEncode,
       parsed(&Config::devices, parse_devices)},
      {"workers", "", 0, "N",
       by_verb({{kSample,
                 "workers of this process; 0: one per GPU, on the CPU as the "
                 "cores allow; with --listen, 0: none"},
                {kComputes,
                 "workers of this process; 0: one per GPU, on the CPU as the "
                 "cores allow"}}),
       kResources, often(kSample | kBench) | kComputes,
       whole(&Config::num_workers, 0, 1024), "as many as the devices can use"},
      {"threads", "", 0, "N",
       "threads of each CPU worker, or of each of its shards; 0: as cores "
       "allow",
       kResources, often(kSample | kBench) | kComputes,
       whole(&Config::num_threads, 0, 1024)},
      {"shards", "", 0, "N",
       "groups of threads, or GPUs, that compute each picture of a worker "
       "together, with the bytes of one; --threads is for each group",
       kResources, kComputes, whole(&Config::num_shards, 1, 64)},
      {"shard-plan", "", 0, "PLAN",
       by_verb(
           {{kRuns,
             "how shards divide attention: gather (keys and values of all "
             "tokens), ulysses (some heads of all tokens), ring (as gather, "
             "with --ring-blocks of as many as there are shards), or auto, "
             "which is exact: sample and worker time GPUs, and refuse "
             "shards that are no faster than one"},
            {kWorker,
             "how shards divide attention: gather (keys and values of all "
             "tokens), ulysses (some heads of all tokens), or auto: GPUs are "
             "timed, and refused if they are no faster than one"}}),
       kResources, kComputes, field(&Config::shard_plan)},
      {"exchange", "", 0, "WAY",
       "how GPUs exchange what they divide by --shards: peer (copies between "
       "their memories) or nccl",
       kResources, kComputes, field(&Config::exchange)},
      {"ring-blocks", "", 0, "N",
       "blocks of keys whose attention is merged: close to the exact bytes, "
       "and the same for any number of shards; 1: exact",
       kResources, kRuns, whole(&Config::ring_blocks, 1, 64),
       "1; with --shard-plan ring as many as --shards"},
      {"batch", "batch-size", 0, "N",
       "most images of a forward pass; 0: as the device likes", kResources,
       kComputes, whole(&Config::batch, 0, 1024)},
      {"dtype", "torch-dtype,precision", 0, "KIND",
       "auto (bf16 where the device has it), f32, bf16 or f16 (GPU)",
       kResources, often(kSample | kBench) | kRuns | kEncode, dtype_field()},
      {"isa", "", 0, "LEVEL",
       "hold the CPU to avx2, avx512, avx512_bf16 or amx: unlike machines that "
       "are held to one level compute in one execution class. The first two "
       "have no bf16: --dtype auto is f32 there",
       kResources, kRuns | kEncode, isa_field()},
      {"bits", "", 0, "MODE",
       "of GPUs: invariant (an image's bytes are its own), or free", kResources,
       kRuns, field(&Config::bits)},
      {"tf32", "", 0, "", "let GPUs round the operands of f32 products to TF32",
       kResources, kRuns, field(&Config::tf32)},
      {"require-class", "", 0, "HASH|FILE",
       "stop with exit 8 unless this machine computes in that execution class "
       "(a hash, or an image made in it)",
       kResources, kSample, field(&Config::require_class), "none"},
      {"repeats", "", 0, "N", "runs of each measurement; the median counts",
       kResources, often(kBench), whole(&Config::repeats, 1, 1000)},
      {"all", "", 0, "",
       "with methods: more settings, among them tolerances of picard",
       kResources, kBench, field(&Config::all_settings)},
      {"quality", "", 0, "N",
       "with methods: draw N pictures by each setting, and judge them by the "
       "classifier in the model's folder; 0: none",
       kResources, kBench, whole(&Config::quality, 0)},
      {"calibrate", "", 0, "",
       "with methods: write each setting's rounds and error, and no times, to "
       "methods.json in the model's folder, or to the FILE.json of --out",
       kOutput, kBench, field(&Config::calibrate)},
      {"emulate", "", 0, "N",
       "modelled devices in virtual time, 1 to 1024, instead of workers: every "
       "number is computed, only time is modelled",
       kEmulation, often(kBench), whole(&Emulation::devices, 1, 1024), "none"},
      {"step-ms", "", 0, "X",
       "milliseconds of a pass of one row on a device of speed 1", kEmulation,
       often(kBench), real(&Emulation::step_ms, 0.001, 1e6), "40"},
      {"row-slope", "", 0, "X",
       "what each further row adds, as a part of the first: a pass of r rows "
       "takes step-ms * (1 + X * (r - 1)) / speed",
       kEmulation, kBench, real(&Emulation::row_slope, 0, 100), "1"},
      {"speeds", "", 0, "LIST", "of the devices, one each", kEmulation,
       often(kBench), parsed(&Emulation::speeds, parse_speeds), "all 1"},
      {"jitter", "", 0, "X",
       "a pass takes up to X times its time longer, drawn from --seed",
       kEmulation, kBench, real(&Emulation::jitter, 0, 10), "0"},
      {"link-gbps", "", 0, "X",
       "gigabits a second of each device's link, in each direction", kEmulation,
       often(kBench), real(&Emulation::link_gbps, 0.000001, 1e6), "1"},
      {"link-us", "", 0, "X", "microseconds of a message to another device",
       kEmulation, kBench, real(&Emulation::link_us, 0, 1e7), "50"},
      {"out", "output,outdir,out-dir,output-dir,output-path", 'o', "PATH",
       by_verb(
           {{kSample,
             "FILE.png, a folder, a pattern with {index:05}, or - for stdout"},
            {kKeys, "the key file to write"},
            {kBench,
             "with methods: the folder for report, figures and finished runs, "
             "or with --calibrate FILE.json"},
            {kEncode, "FILE.safetensors or FILE.npz"}}),
       kOutput, often(kSample | kBench) | kKeys | kEncode, field(&Config::out),
       by_verb({{kBench, "bench-methods"}, {kAll, "none"}})},
      {"grid", "", 0, "FILE", "a contact sheet of all samples", kOutput,
       often(kSample), field(&Config::grid), "none"},
      {"exists", "", 0, "WHAT", "error, skip or replace outputs that are there",
       kOutput, often(kSample) | kEncode, field(&Config::exists)},
      {"keep-going", "", 0, "",
       "go on although the first 16 images have failed", kOutput, kSample,
       field(&Config::keep_going)},
      {"save", "", 0, "KIND=FILE",
       "latents=FILE, the final ones [n, C, H, W]; trajectory=FILE, after "
       "every model call [n, calls + 1, C, H, W] (.safetensors, .npz or .npy)",
       kOutput, kSample, parsed(&Config::save, parse_list), "none"},
      {"preview", "", 0, "FILE",
       "the image so far, every few steps: of one sample after the other, or "
       "with {index} in the name of each in its own file",
       kOutput, kSample, field(&Config::preview), "none"},
      {"preview-samples", "", 0, "N|A:B",
       "previews of these samples only, global indices as in --samples",
       kOutput, kSample, parsed(&Config::preview_samples, parse_range), "all"},
      {"preview-every", "", 0, "K", "steps between previews", kOutput, kSample,
       whole(&Config::preview_every, 1)},
      {"trace", "", 0, "FILE",
       "timeline for Perfetto or chrome://tracing: a track per worker of every "
       "process, and arrows for values that moved",
       kOutput, kSample, field(&Config::trace), "none"},
      {"plot", "", 0, "FILE", "draw the schedule as SVG", kOutput, kSchedule,
       field(&Config::plot), "none"},
      {"against", "", 0, "FILE",
       "compare with this file instead of running again", kOutput, kVerify,
       field(&Config::against), "none: run the recipe again"},
      {"progress", "", 0, "KIND", "auto, bar, plain, json or none (to stderr)",
       kTalk, kRuns, field(&Config::progress)},
      {"quiet", "", 'q', "", "errors only", kTalk, kAll, field(&Config::quiet)},
      {"verbose", "", 'v', "", "say more", kTalk, kAll,
       field(&Config::verbose)},
      {"json", "", 0, "", "one JSON object last on stdout, on failure too",
       kTalk, often(kSample | kBench) | kAll, field(&Config::json)},
      {"dry-run", "plan", 0, "",
       "method, placement, memory, predicted time; no image", kTalk,
       often(kSample), field(&Config::dry_run)},
      {"print-job", "", 0, "",
       "print the job as workers get it, as JSON; no image", kTalk, kSample,
       field(&Config::print_job)},
      {"print-config", "", 0, "", "print the merged options as TOML", kTalk,
       kAll, Field{field(&Config::print_config).set}},
  });
  return kTable;
}

}  // namespace troupe::config::rows
