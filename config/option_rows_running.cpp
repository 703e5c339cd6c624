// A table file: one row per option.
#include <array>

#include "config/device_choice.h"
#include "config/method_names.h"
#include "config/option_rows.h"

namespace troupe::config::rows {
namespace {

/// "auto, sequential, … or stale": of the table.
const std::string& shown_methods() {
  static const std::string kShown = [] {
    const Names names = method_names();
    std::string text = "auto";
    for (const std::string& name : names) {
      text.append(name == names.back() ? " or " : ", ").append(name);
    }
    return text;
  }();
  return kShown;
}

}  // namespace

std::span<const Option> running_rows() {
  static const auto kTable = std::to_array<Option>({
      {"method", "", 0, "NAME", shown_methods(), kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.kind = parse_method(at, text);
       },
       [](const Config& c) -> std::string {
         if (c.method.kind) {
           return std::string((*c.method.kind)->name);
         }
         return c.method.preset.empty() ? "auto" : "";
       },
       "stale, of the preset"},
      {"preset", "", 0, "NAME", "asyncdiff (stride 1) or asyncdiff2 (stride 2)",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.preset = Names{
             "asyncdiff",
             "asyncdiff2"}[parse_choice(at, text, {"asyncdiff", "asyncdiff2"})];
       },
       [](const Config& c) -> std::string { return c.method.preset; }, "none"},
      {"window", "window-size", 0, "N", "picard: timesteps iterated together",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.window_size = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.window_size);
       },
       "8, at most the model calls of a sample"},
      {"tolerance", "tol", 0, "X",
       "picard: a point that changes less is final, 0 is bit-equal to "
       "sequential. verify --against: values that differ by at most X times "
       "the other file's largest |element| (of each tensor; 255 for pictures) "
       "are the same",
       kMethodGroup, kSample | kBench | kVerify,
       [](Config& c, Text at, Text text) {
         c.method.tolerance = parse_real(at, text, 0, kHuge);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.tolerance);
       },
       "picard: 0.15 / sqrt(model calls), from 0.022 to 0.034; verify: 0"},
      {"carry", "", 0, "KIND", "picard: identity, coefficient or deviation",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.carry = parse_enum<samplers::Carry>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.method.carry); },
       "deviation; identity with --accept first_failing"},
      {"guess", "initial-guess", 0, "KIND", "picard: last_point or constant_x0",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.initial_guess = parse_enum<samplers::InitialGuess>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.method.initial_guess);
       },
       "constant_x0; last_point with --accept first_failing"},
      {"accept", "accept-rule", 0, "KIND",
       "picard: settled, or first_failing (ParaDiGMS)", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.accept = parse_enum<samplers::Accept>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.method.accept); },
       "settled; first_failing beside --tolerance"},
      {"segments", "num-segments", 0, "N",
       "pipeline, stale: parts the network is cut in", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.num_segments = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.num_segments);
       },
       "one per worker, at least 2"},
      {"ages", "age", 0, "LIST", "stale: steps by which each cut may lag",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) { set_ages(c.method, at, text); },
       [](const Config& c) -> std::string { return joined(c.method.ages); },
       "1"},
      {"stride", "", 0, "N", "stale: steps per round, 1 or 2", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.stride = static_cast<int>(parse_integer(at, text, 1, 2));
       },
       [](const Config& c) -> std::string { return text_of(c.method.stride); },
       "1"},
      {"warmup", "warmup-steps", 0, "N",
       "stale: exact model calls at the start (Heun: two a step)", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.warmup_steps = small(at, text, 0);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.warmup_steps);
       },
       "1"},
      {"final-fresh", "final-fresh-steps", 0, "N",
       "stale: exact steps at the end", kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.final_fresh_steps = small(at, text, 0);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.final_fresh_steps);
       },
       "0"},
      {"device", "devices", 0, "LIST",
       "auto, cpu, cuda (all GPUs), cuda:N, or several with commas", kResources,
       kRuns,
       [](Config& c, Text at, Text text) {
         c.devices = parse_devices(at, text);
       },
       [](const Config& c) -> std::string { return to_string(c.devices); }},
      {"workers", "", 0, "N",
       "workers of the company; 0: one per GPU, on the CPU as the cores allow",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.num_workers = static_cast<int>(parse_integer(at, text, 0, 1024));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.num_workers);
       }},
      {"threads", "", 0, "N", "threads of each CPU worker; 0: cores / workers",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.num_threads = static_cast<int>(parse_integer(at, text, 0, 1024));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.num_threads);
       }},
      {"batch", "batch-size", 0, "N",
       "most images of a forward pass; 0: as the device likes", kResources,
       kRuns,
       [](Config& c, Text at, Text text) {
         c.batch = static_cast<int>(parse_integer(at, text, 0, 1024));
       },
       [](const Config& c) -> std::string { return std::to_string(c.batch); }},
      {"dtype", "", 0, "KIND",
       "auto (bf16 where the device has it), f32, bf16 or f16 (GPU)",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.compute = parse_enum<ComputeType>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.compute); }},
      {"isa", "", 0, "LEVEL",
       "hold the CPU to avx2, avx512, avx512_bf16 or amx: unlike machines that "
       "are held to one level compute in one execution class",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.isa.reset();
         if (text != "auto") {
           c.isa = parse_enum<IsaLevel>(at, text);
         }
       },
       [](const Config& c) -> std::string {
         return c.isa ? name_of(c.isa) : "auto";
       }},
      {"bits", "", 0, "MODE",
       "of GPUs: invariant (an image's bytes are its own), or free", kResources,
       kRuns,
       [](Config& c, Text at, Text text) {
         c.bits = parse_enum<BitsMode>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.bits); }},
      {"tf32", "", 0, "", "let GPUs round the operands of f32 products to TF32",
       kResources, kRuns,
       [](Config& c, Text at, Text text) { c.tf32 = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.tf32); }},
      {"require-class", "", 0, "HASH|FILE",
       "stop with exit 8 unless this machine computes in that class (a hash, "
       "or an image made in it)",
       kResources, kSample,
       [](Config& c, Text at, Text text) {
         c.require_class = filled(at, text);
       },
       [](const Config& c) -> std::string { return c.require_class; }, "none"},
      {"repeats", "", 0, "N", "runs of each measurement; the median counts",
       kResources, kBench,
       [](Config& c, Text at, Text text) {
         c.repeats = static_cast<int>(parse_integer(at, text, 1, 1000));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.repeats);
       }},
      {"out", "output", 'o', "PATH",
       "FILE.png, a folder, a pattern with {index:05}, or - for stdout",
       kOutput, kSample,
       [](Config& c, Text at, Text text) { c.out = filled(at, text); },
       [](const Config& c) -> std::string { return c.out; }, "none"},
      {"grid", "", 0, "FILE", "a contact sheet of all samples", kOutput,
       kSample,
       [](Config& c, Text at, Text text) { c.grid = filled(at, text); },
       [](const Config& c) -> std::string { return c.grid; }, "none"},
      {"exists", "", 0, "WHAT", "error, skip or replace outputs that are there",
       kOutput, kSample,
       [](Config& c, Text at, Text text) {
         c.exists = parse_enum<ExistsPolicy>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.exists); }},
      {"save", "", 0, "KIND=FILE",
       "latents=FILE, the final ones [n, C, H, W]; trajectory=FILE, after "
       "every "
       "model call [n, calls + 1, C, H, W] (.safetensors, .npz or .npy)",
       kOutput, kSample,
       [](Config& c, Text at, Text text) { c.save = parse_list(at, text); },
       [](const Config& c) -> std::string { return joined(c.save); }, "none"},
      {"preview", "", 0, "FILE",
       "the image so far, every few steps: of one sample after the other, or "
       "with {index} in the name of each in its own file",
       kOutput, kSample,
       [](Config& c, Text at, Text text) { c.preview = filled(at, text); },
       [](const Config& c) -> std::string { return c.preview; }, "none"},
      {"preview-samples", "", 0, "N|A:B",
       "previews of these samples only, global indices as in --samples",
       kOutput, kSample,
       [](Config& c, Text at, Text text) {
         c.preview_samples = parse_range(at, text);
       },
       [](const Config& c) -> std::string {
         return c.preview_samples ? to_string(*c.preview_samples)
                                  : std::string();
       },
       "all"},
      {"preview-every", "", 0, "K", "steps between previews", kOutput, kSample,
       [](Config& c, Text at, Text text) {
         c.preview_every = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.preview_every);
       }},
      {"trace", "", 0, "FILE", "timeline for Perfetto or chrome://tracing",
       kOutput, kSample,
       [](Config& c, Text at, Text text) { c.trace = filled(at, text); },
       [](const Config& c) -> std::string { return c.trace; }, "none"},
      {"plot", "", 0, "FILE", "draw the schedule as SVG", kOutput, kSchedule,
       [](Config& c, Text at, Text text) { c.plot = filled(at, text); },
       [](const Config& c) -> std::string { return c.plot; }, "none"},
      {"against", "", 0, "FILE",
       "compare with this file instead of running again", kOutput, kVerify,
       [](Config& c, Text at, Text text) { c.against = filled(at, text); },
       [](const Config& c) -> std::string { return c.against; },
       "none: run the recipe again"},
      {"progress", "", 0, "KIND", "auto, bar, plain, json or none (to stderr)",
       kTalk, kSample | kVerify,
       [](Config& c, Text at, Text text) {
         c.progress = parse_enum<ProgressKind>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.progress); }},
      {"quiet", "", 'q', "", "errors only", kTalk, kAll,
       [](Config& c, Text at, Text text) { c.quiet = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.quiet); }},
      {"verbose", "", 'v', "", "say more", kTalk, kAll,
       [](Config& c, Text at, Text text) { c.verbose = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.verbose); }},
      {"json", "", 0, "", "one JSON object last on stdout, on failure too",
       kTalk, kAll,
       [](Config& c, Text at, Text text) { c.json = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.json); }},
      {"dry-run", "plan", 0, "",
       "method, placement, memory, predicted time; no image", kTalk, kSample,
       [](Config& c, Text at, Text text) { c.dry_run = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.dry_run); }},
      {"print-config", "", 0, "", "print the merged options as TOML", kTalk,
       kAll,
       [](Config& c, Text at,
          Text text) { c.print_config = parse_bool(at, text); },
       nullptr},
  });
  return kTable;
}

}  // namespace troupe::config::rows
