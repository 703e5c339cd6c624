// A table file: one row per option, which is why it is long.
#include <array>
#include <limits>

#include "config/enum_names.h"
#include "config/option_table.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

using Text = std::string_view;

constexpr std::uint8_t kSample = 1;
constexpr std::uint8_t kSchedule = 2;
constexpr std::uint8_t kInspect = 4;
constexpr std::uint8_t kVerify = 8;
constexpr std::uint8_t kBench = 16;
constexpr std::uint8_t kDoctor = 32;
constexpr std::uint8_t kAll = 63;
constexpr std::uint8_t kRuns = kSample | kBench | kVerify;
constexpr std::uint8_t kSamplers = kSample | kBench | kSchedule;
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr int kMany = 1'000'000;

using Names = std::vector<std::string>;

template <typename Enum>
std::string name_of(const std::optional<Enum>& value) {
  return value ? config::name_of(*value) : std::string();
}
std::string text_of(const std::optional<int>& value) {
  return value ? std::to_string(*value) : std::string();
}
std::string text_of(const std::optional<double>& value) {
  return value ? to_text(*value) : std::string();
}
std::string text_of(bool value) { return value ? "true" : std::string(); }
std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    text.append(text.empty() ? "" : ",").append(item);
  }
  return text;
}
std::string joined(const std::vector<int>& items) {
  Names names;
  for (const int item : items) {
    names.push_back(std::to_string(item));
  }
  return joined(names);
}
std::string joined(const std::vector<double>& items) {
  Names names;
  for (const double item : items) {
    names.push_back(to_text(item));
  }
  return joined(names);
}
int small(Text place, Text text, int min) {
  return static_cast<int>(parse_integer(place, text, min, kMany));
}
/// A path or name: refuses the empty one, which is mostly a shell variable
/// that was not set.
std::string filled(Text place, Text text) {
  require(!text.empty(), Errc::invalid_argument, place, "the value is empty",
          "was a shell variable meant that is not set?");
  return std::string(text);
}
/// "auto" leaves the choice to us.
void set_method(MethodConfig& method, Text place, Text text) {
  Names names = names_of<samplers::MethodKind>();
  names.emplace_back("auto");
  const std::size_t index = parse_choice(place, text, names);
  method.kind.reset();
  if (index < names_of<samplers::MethodKind>().size()) {
    method.kind = static_cast<samplers::MethodKind>(index);
  }
}
void set_ages(MethodConfig& method, Text place, Text text) {
  method.ages.clear();
  for (const std::string& item : parse_list(place, text)) {
    method.ages.push_back(small(place, item, 0));
  }
}

constexpr Text kModel = "Model and job";
constexpr Text kSamplerGroup = "Sampler";
constexpr Text kMethodGroup = "Parallel method";
constexpr Text kResources = "Machine";
constexpr Text kOutput = "Output";
constexpr Text kTalk = "Talk";

}  // namespace

std::span<const Option> option_table() {
  static const auto kTable = std::to_array<Option>({
      {"model", "", 'm', "DIR", "checkpoint folder in diffusers layout", kModel,
       kRuns | kSchedule,
       [](Config& c, Text at, Text text) { c.model_dir = filled(at, text); },
       [](const Config& c) -> std::string { return c.model_dir; }},
      {"random-weights", "", 0, "NAME",
       "a bundled model shape with random weights", kModel, kRuns,
       [](Config& c, Text at, Text text) {
         c.random_weights = filled(at, text);
       },
       [](const Config& c) -> std::string { return c.random_weights; }},
      {"class", "class-labels,classes,label", 'c', "LIST",
       "class names or ids; several cycle over the samples", kModel, kRuns,
       [](Config& c, Text at, Text text) { c.classes = parse_list(at, text); },
       [](const Config& c) -> std::string { return joined(c.classes); }},
      {"samples", "num-samples,batch-count", 'n', "N|A:B",
       "how many images, or global indices [A, B)", kModel, kRuns,
       [](Config& c, Text at, Text text) { c.samples = parse_range(at, text); },
       [](const Config& c) -> std::string { return to_string(c.samples); }},
      {"seed", "", 's', "N", "the same seed gives the same images", kModel,
       kRuns,
       [](Config& c, Text at, Text text) { c.seed = parse_unsigned(at, text); },
       [](const Config& c) -> std::string { return std::to_string(c.seed); }},
      {"noise", "", 0, "KIND",
       "philox, or torch for the images diffusers draws", kModel, kRuns,
       [](Config& c, Text at, Text text) {
         c.noise = parse_enum<NoiseKind>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.noise); }},
      {"init-latents", "", 0, "FILE",
       "start from these latents (.safetensors, .npy, .npz)", kModel, kSample,
       [](Config& c, Text at, Text text) { c.init_latents = filled(at, text); },
       [](const Config& c) -> std::string { return c.init_latents; }},
      {"from", "", 0, "IMAGE", "take the recipe out of a PNG made by troupe",
       kModel, kSample,
       [](Config& c, Text at, Text text) { c.from_image = filled(at, text); },
       [](const Config& c) -> std::string { return c.from_image; }},
      {"sampler", "scheduler,solver", 0, "NAME",
       "ddim, ddpm, dpm++2m, euler, heun, unipc, … or a diffusers class",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) { c.sampler.name = filled(at, text); },
       [](const Config& c) -> std::string { return c.sampler.name; }},
      {"steps", "num-inference-steps,num-steps", 0, "N", "denoising steps",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.steps = small(at, text, 1);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.steps); }},
      {"guidance", "guidance-scale,cfg-scale", 0, "W",
       "classifier-free guidance; 1 is off", kSamplerGroup, kRuns,
       [](Config& c, Text at, Text text) {
         c.guidance_scale = parse_real(at, text, -1000, 1000);
       },
       [](const Config& c) -> std::string {
         return text_of(c.guidance_scale);
       }},
      {"eta", "", 0, "X", "DDIM: 0 deterministic, 1 like DDPM", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.eta = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.eta); }},
      {"order", "solver-order", 0, "N", "order of a multistep solver, 1 to 3",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.solver_order =
             static_cast<int>(parse_integer(at, text, 1, 3));
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.solver_order);
       }},
      {"timestep-spacing", "spacing", 0, "KIND",
       "leading, trailing or linspace", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.timestep_spacing =
             parse_enum<samplers::TimestepSpacing>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.timestep_spacing);
       }},
      {"sigma-spacing", "", 0, "KIND", "none, karras, exponential or beta",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.sigma_spacing = parse_enum<samplers::SigmaSpacing>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.sigma_spacing);
       }},
      {"karras", "use-karras-sigmas", 0, "",
       "the same as --sigma-spacing karras", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         if (parse_bool(at, text)) {
           c.sampler.sigma_spacing = samplers::SigmaSpacing::karras;
         }
       },
       [](const Config&) { return std::string(); }},
      {"prediction-type", "", 0, "KIND",
       "epsilon, v_prediction, sample or flow_prediction", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.prediction_type =
             parse_enum<samplers::PredictionType>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.prediction_type);
       }},
      {"beta-schedule", "", 0, "KIND",
       "linear, scaled_linear or squaredcos_cap_v2", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_schedule = parse_enum<samplers::BetaSchedule>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.beta_schedule);
       }},
      {"beta-start", "", 0, "X", "first training variance", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_start = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.beta_start);
       }},
      {"beta-end", "", 0, "X", "last training variance", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.beta_end = parse_real(at, text, 0, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.beta_end);
       }},
      {"train-steps", "num-train-timesteps", 0, "N",
       "timesteps the model was trained with", kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.num_train_timesteps = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.sampler.num_train_timesteps);
       }},
      {"shift", "flow-shift", 0, "X", "time shift of flow models",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.shift = parse_real(at, text, 1e-6, 1e6);
       },
       [](const Config& c) -> std::string { return text_of(c.sampler.shift); }},
      {"variance-type", "", 0, "KIND",
       "DDPM: fixed_small, fixed_large, learned_range, …", kSamplerGroup,
       kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.variance_type = parse_enum<samplers::VarianceType>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.sampler.variance_type);
       }},
      {"clip-sample", "", 0, "BOOL", "clip the predicted clean sample",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.clip_sample = parse_bool(at, text);
       },
       [](const Config& c) -> std::string {
         return c.sampler.clip_sample
                    ? std::string(*c.sampler.clip_sample ? "true" : "false")
                    : std::string();
       }},
      {"sigmas", "", 0, "LIST", "explicit noise levels, descending",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.sigmas = parse_reals(at, text);
       },
       [](const Config& c) -> std::string { return joined(c.sampler.sigmas); }},
      {"timesteps", "", 0, "LIST", "explicit timesteps, descending",
       kSamplerGroup, kSamplers,
       [](Config& c, Text at, Text text) {
         c.sampler.timesteps = parse_reals(at, text);
       },
       [](const Config& c) -> std::string {
         return joined(c.sampler.timesteps);
       }},
      {"method", "", 0, "NAME",
       "auto, sequential, batch, cfg, picard, pipeline or stale", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) { set_method(c.method, at, text); },
       [](const Config& c) -> std::string { return name_of(c.method.kind); }},
      {"preset", "", 0, "NAME", "asyncdiff (stride 1) or asyncdiff2 (stride 2)",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.preset = Names{
             "asyncdiff",
             "asyncdiff2"}[parse_choice(at, text, {"asyncdiff", "asyncdiff2"})];
       },
       [](const Config& c) -> std::string { return c.method.preset; }},
      {"window", "window-size", 0, "N", "picard: timesteps iterated together",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.window_size = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.window_size);
       }},
      {"tolerance", "tol", 0, "X", "picard: 0 is bit-equal to sequential",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.tolerance = parse_real(at, text, 0, kHuge);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.tolerance);
       }},
      {"carry", "", 0, "KIND", "picard: identity or coefficient", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.carry = parse_enum<samplers::Carry>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.method.carry); }},
      {"guess", "initial-guess", 0, "KIND", "picard: last_point or constant_x0",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.initial_guess = parse_enum<samplers::InitialGuess>(at, text);
       },
       [](const Config& c) -> std::string {
         return name_of(c.method.initial_guess);
       }},
      {"segments", "num-segments", 0, "N",
       "pipeline, stale: parts the network is cut in", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.num_segments = small(at, text, 1);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.num_segments);
       }},
      {"ages", "age", 0, "LIST", "stale: steps by which each cut may lag",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) { set_ages(c.method, at, text); },
       [](const Config& c) -> std::string { return joined(c.method.ages); }},
      {"stride", "", 0, "N", "stale: steps per round, 1 or 2", kMethodGroup,
       kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.stride = static_cast<int>(parse_integer(at, text, 1, 2));
       },
       [](const Config& c) -> std::string { return text_of(c.method.stride); }},
      {"warmup", "warmup-steps", 0, "N", "stale: exact steps at the start",
       kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.warmup_steps = small(at, text, 0);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.warmup_steps);
       }},
      {"final-fresh", "final-fresh-steps", 0, "N",
       "stale: exact steps at the end", kMethodGroup, kSample | kBench,
       [](Config& c, Text at, Text text) {
         c.method.final_fresh_steps = small(at, text, 0);
       },
       [](const Config& c) -> std::string {
         return text_of(c.method.final_fresh_steps);
       }},
      {"workers", "", 0, "N", "workers of the company; 0: as the cores allow",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.num_workers = static_cast<int>(parse_integer(at, text, 0, 1024));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.num_workers);
       }},
      {"threads", "", 0, "N", "threads of each worker; 0: cores / workers",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.num_threads = static_cast<int>(parse_integer(at, text, 0, 1024));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.num_threads);
       }},
      {"dtype", "", 0, "KIND", "auto (bf16 where the CPU has it), f32 or bf16",
       kResources, kRuns,
       [](Config& c, Text at, Text text) {
         c.compute = parse_enum<ComputeType>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.compute); }},
      {"repeats", "", 0, "N", "runs of each measurement; the median counts",
       kResources, kBench,
       [](Config& c, Text at, Text text) {
         c.repeats = static_cast<int>(parse_integer(at, text, 1, 1000));
       },
       [](const Config& c) -> std::string {
         return std::to_string(c.repeats);
       }},
      {"out", "output", 'o', "PATH",
       "FILE.png, a folder, or a pattern with {index:05}", kOutput, kSample,
       [](Config& c, Text at, Text text) { c.out = filled(at, text); },
       [](const Config& c) -> std::string { return c.out; }},
      {"grid", "", 0, "FILE", "a contact sheet of all samples", kOutput,
       kSample,
       [](Config& c, Text at, Text text) { c.grid = filled(at, text); },
       [](const Config& c) -> std::string { return c.grid; }},
      {"exists", "", 0, "WHAT", "error, skip or replace outputs that are there",
       kOutput, kSample,
       [](Config& c, Text at, Text text) {
         c.exists = parse_enum<ExistsPolicy>(at, text);
       },
       [](const Config& c) -> std::string { return name_of(c.exists); }},
      {"save", "", 0, "KIND=FILE",
       "latents=FILE, the final ones [n, C, H, W]; trajectory=FILE, after "
       "every "
       "model call [n, calls + 1, C, H, W] (.safetensors or .npz)",
       kOutput, kSample,
       [](Config& c, Text at, Text text) { c.save = parse_list(at, text); },
       [](const Config& c) -> std::string { return joined(c.save); }},
      {"preview", "", 0, "FILE", "the image so far, every few steps", kOutput,
       kSample,
       [](Config& c, Text at, Text text) { c.preview = filled(at, text); },
       [](const Config& c) -> std::string { return c.preview; }},
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
       [](const Config& c) -> std::string { return c.trace; }},
      {"plot", "", 0, "FILE", "draw the schedule as SVG", kOutput, kSchedule,
       [](Config& c, Text at, Text text) { c.plot = filled(at, text); },
       [](const Config& c) -> std::string { return c.plot; }},
      {"against", "", 0, "FILE",
       "compare with this file instead of running again", kOutput, kVerify,
       [](Config& c, Text at, Text text) { c.against = filled(at, text); },
       [](const Config& c) -> std::string { return c.against; }},
      {"progress", "", 0, "KIND", "auto, bar, plain, json or none (to stderr)",
       kTalk, kRuns,
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
       "method, placement, memory and cost; compute nothing", kTalk, kSample,
       [](Config& c, Text at, Text text) { c.dry_run = parse_bool(at, text); },
       [](const Config& c) -> std::string { return text_of(c.dry_run); }},
      {"print-config", "", 0, "", "print the merged options as TOML", kTalk,
       kAll,
       [](Config& c, Text at, Text text) {
         c.print_config = parse_bool(at, text);
       },
       [](const Config&) { return std::string(); }},
  });
  return kTable;
}

}  // namespace troupe::config
