#include "actors/cli/inspect_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/job_devices.h"
#include "actors/cli/memory_plan.h"
#include "actors/cli/model_source.h"
#include "actors/cli/notes.h"
#include "actors/cli/prompt_source.h"
#include "config/bundled_models.h"
#include "config/known_keys.h"
#include "config/option_table.h"
#include "config/sampling_defaults.h"
#include "config/schedule_options.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/system/machine.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

std::uint64_t num_parameters(const models::Component& component) {
  std::uint64_t count = 0;
  for (const auto& file : component.weights.files()) {
    for (const models::SafetensorsEntry& entry : file->header().entries) {
      count += static_cast<std::uint64_t>(entry.shape.num_elements());
    }
  }
  return count;
}

/// Its solver as --sampler names it, or the class that Troupe does not have.
std::string describe_scheduler(const ModelSource& source) {
  std::string name;
  try {
    if (source.checkpoint()) {
      name = source.checkpoint()->scheduler_class;
      check_scheduler(*source.checkpoint(), {});
    }
    name = config::scheduler_class(source.scheduler_config());
    return config::solver_label(config::schedule_options(
        {}, source.scheduler_config(),
        source.checkpoint() ? scheduler_path(*source.checkpoint())
                            : source.name(),
        source.pipeline_class()));
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported) {
      throw;
    }
    return name + " (not supported; use --sampler)";
  }
}

DeviceNeeds needs_on(const std::string& name, bool is_gpu, DType compute,
                     const ModelSource& source,
                     std::optional<std::uint64_t> available) {
  const MemoryNeeds needs = memory_needs(
      source, is_gpu ? DeviceKind::cuda : DeviceKind::cpu, compute);
  const std::uint64_t image = 2 * needs.network.of_rows(1);
  const std::uint64_t shared = needs.weights_bytes + needs.decode_bytes +
                               needs.scratch.of(1) +
                               (is_gpu ? kGpuOverhead : 0);
  return {name, compute, needs.weights_bytes, image, shared + image, available};
}

std::vector<DeviceNeeds> needs_by_device(const ModelSource& source) {
  std::vector<DeviceNeeds> list;
  list.push_back(needs_on("cpu", false, automatic_dtype(), source,
                          memory_info().available_bytes));
  const Gpus gpus;
  for (const kernels::CudaDevice& gpu : gpus.found.devices) {
    std::optional<std::uint64_t> available;
    try {
      available = gpus.memory(gpu.index).free_bytes;
    } catch (const Error&) {
      // Doctor says what is wrong with it.
    }
    list.push_back(needs_on(
        to_string(Device{DeviceKind::cuda, gpu.index}) + " (" + gpu.name + ")",
        true, DType::bf16, source, available));
  }
  if (gpus.found.devices.empty()) {
    list.push_back(needs_on("a GPU", true, DType::bf16, source, std::nullopt));
  }
  return list;
}

/// How it is sampled when nobody says otherwise.
nlohmann::ordered_json describe_defaults(
    const std::vector<config::Setting>& settings) {
  auto json = nlohmann::ordered_json::object();
  for (const config::Setting& setting : settings) {
    const config::Option& option = *config::find_option(setting.key);
    json[std::string(option.key)] =
        option.kind() == config::ValueKind::text
            ? nlohmann::ordered_json(setting.text)
            : nlohmann::ordered_json::parse(setting.text);
  }
  return json;
}

/// fn() fills the part's facts. What cannot be used is no error of inspect:
/// prompts may come encoded (--prompt-embeds).
template <typename Facts, typename Fn>
void describe_usable(PipelinePart<Facts>& part, const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported && error.code() != Errc::not_found) {
      throw;
    }
    part.problem = error.message();
  }
}

EncoderParts describe_encoder(const ModelSource& source,
                              const models::PromptEncoder& of) {
  EncoderParts parts = {{std::string(of.encoder)}, {std::string(of.tokenizer)}};
  std::shared_ptr<const models::Tokenizer> tokenizer;
  describe_usable(parts.tokenizer,
                  [&] { tokenizer = open_prompt_tokenizer(source, of); });
  std::int64_t longest = of.most_tokens;
  describe_usable(parts.encoder, [&] {
    const PromptEncoderSource encoder = open_prompt_encoder(source, of);
    const models::TextEncoderDescription& about = *encoder.description;
    longest = tokenizer == nullptr
                  ? std::min(longest, about.max_tokens())
                  : prompt_length(source, of, *tokenizer, about);
    const auto memory = [&](DType dtype) {
      const models::TextEncoderCosts costs =
          about.costs(longest, dtype, DeviceKind::cpu);
      return costs.weights_bytes + costs.pass_bytes;
    };
    parts.encoder.facts = {encoder.record.class_name,
                           about.width(),
                           about.num_layers(),
                           encoder.files == nullptr
                               ? std::nullopt
                               : std::optional(num_parameters(*encoder.files)),
                           memory(DType::f32),
                           memory(DType::bf16)};
  });
  if (tokenizer != nullptr) {
    parts.tokenizer.facts = {std::string(tokenizer->kind()),
                             tokenizer->vocab_size(), longest,
                             source.is_random()};
  }
  return parts;
}

std::vector<EncoderParts> describe_encoders(const ModelSource& source) {
  std::vector<EncoderParts> list;
  if (source.takes_prompts() && source.pipeline() != nullptr) {
    for (const models::PromptEncoder& part : source.pipeline()->encoders) {
      list.push_back(describe_encoder(source, part));
    }
  }
  return list;
}

/// What is known of every model.
void describe_source(const ModelSource& source, ModelFacts& model) {
  model.network = source.denoiser().facts();
  model.latents = to_string(source.latent_shape());
  model.resolution_bins = source.bins().size();
  model.memory_bytes_f32 = required_bytes(source, DType::f32, 1, 1, 2);
  model.memory_bytes_bf16 = required_bytes(source, DType::bf16, 1, 1, 2);
  model.memory = needs_by_device(source);
  model.sampler = describe_scheduler(source);
  model.takes_prompts = source.takes_prompts();
  model.text_encoders = describe_encoders(source);
  model.classes = source.info(DType::f32).num_classes;
}

}  // namespace

ModelFacts describe_checkpoint(const std::string& path) {
  config::Config config;
  config.model_dir = path;
  const ModelSource source = ModelSource::open(config);
  const models::Checkpoint& checkpoint = *source.checkpoint();
  std::vector<std::string> notes;
  note_networks(checkpoint, source, notes);
  note_scheduler(checkpoint, notes);
  print_notes(notes);
  ModelFacts model = {
      .pipeline = checkpoint.pipeline_class,
      .architecture = checkpoint.denoiser.class_name,
      .autoencoder = checkpoint.vae ? checkpoint.vae->class_name : "",
      .parameters = num_parameters(checkpoint.denoiser),
      .stored_bytes = checkpoint.stored_bytes(),
      .defaults = describe_defaults(config::read_sampling_defaults(path))};
  for (const auto& [id, name] : checkpoint.class_names) {
    model.class_names.emplace_back(std::to_string(id), name);
  }
  describe_source(source, model);
  return model;
}

bool is_bundled_model(const std::string& name) {
  return std::ranges::find(config::bundled_models(), name,
                           &config::BundledModel::name) !=
         config::bundled_models().end();
}

ModelFacts describe_bundled(const std::string& name) {
  const auto class_in = [&](std::string_view json) {
    return json.empty()
               ? std::string()
               : models::Json::parse(json, name).string("_class_name", "");
  };
  config::Config config;
  config.random_weights = name;
  const ModelSource source = ModelSource::open(config);
  const config::BundledModel& bundled = config::find_bundled_model(name);
  ModelFacts model = {.description = std::string(bundled.description),
                      .pipeline = std::string(bundled.pipeline),
                      .architecture = class_in(bundled.denoiser),
                      .autoencoder = class_in(bundled.vae),
                      .defaults = describe_defaults(
                          config::pipeline_defaults(bundled.pipeline, name))};
  describe_source(source, model);
  return model;
}

namespace {

/// "12 blocks, caption width 4096 channels, ".
struct FactsText {
  void operator()(const FieldKey& key, std::optional<std::int64_t> value) {
    std::string name = key.name;
    std::ranges::replace(name, '_', ' ');
    if (value) {
      text += name.starts_with("wid") || name.ends_with("width")
                  ? fmt::format("{} {} channels, ", name, *value)
                  : fmt::format("{} {}, ", *value, name);
    }
  }

  std::string text;
};

void print_head(const std::string& path, const ModelFacts& model) {
  const bool is_bundled = !model.description.empty();
  fmt::print("{}: {}{}\n", path, printable(model.architecture),
             is_bundled && model.pipeline.empty()
                 ? std::string()
                 : " (" + printable(model.pipeline) + ")");
  if (is_bundled) {
    fmt::print("  bundled, for --random-weights: {}\n", model.description);
  }
  FactsText facts;
  visit_fields(facts, model.network);
  fmt::print("  {}latents {} (channels, height, width){}\n", facts.text,
             model.latents,
             model.autoencoder.empty() ? ", no autoencoder: pixel space" : "");
  if (model.resolution_bins > 0) {
    fmt::print("  {} resolution bins: sampled at the one nearest to --size\n",
               model.resolution_bins);
  }
}

void print_memory(const ModelFacts& model) {
  fmt::print("  memory with guidance: {} in f32, {} in bf16\n",
             human_bytes(model.memory_bytes_f32),
             human_bytes(model.memory_bytes_bf16));
  for (const DeviceNeeds& needs : model.memory) {
    fmt::print(
        "  {}: {} with {} of weights in {}, {} per image{}\n", needs.device,
        human_bytes(needs.memory_bytes), human_bytes(needs.weights_bytes),
        to_string(needs.dtype), human_bytes(needs.image_bytes),
        needs.available_bytes
            ? fmt::format("; {} free: {}", human_bytes(*needs.available_bytes),
                          *needs.fits() ? "fits" : "does not fit")
            : std::string());
  }
}

std::string text_of(const EncoderFacts& facts) {
  return fmt::format(
      "{}, width {} channels, {} layers{}; memory {} in f32, {} in bf16",
      printable(facts.class_name), facts.width, facts.layers,
      facts.parameters
          ? fmt::format(", {:.1f} million parameters",
                        static_cast<double>(*facts.parameters) / 1e6)
          : std::string(),
      human_bytes(facts.memory_bytes_f32),
      human_bytes(facts.memory_bytes_bf16));
}

std::string text_of(const TokenizerFacts& facts) {
  return fmt::format("{}, {} ids, prompts of up to {} tokens with their marks",
                     facts.kind, facts.vocabulary, facts.longest_prompt);
}

template <typename Facts>
void print_part(const PipelinePart<Facts>& part) {
  fmt::print("  {}: {}\n", part.name,
             part.facts ? text_of(*part.facts) : printable(part.problem));
}

void print_encoders(const ModelFacts& model) {
  bool is_usable = !model.text_encoders.empty();
  for (const auto& [encoder, tokenizer] : model.text_encoders) {
    is_usable = is_usable && encoder.facts && tokenizer.facts;
    print_part(encoder);
    print_part(tokenizer);
    if (tokenizer.facts && tokenizer.facts->stand_in) {
      fmt::print(
          "  {}: a stand-in, bundled and made for tests: its ids differ from "
          "those of the real one\n",
          tokenizer.name);
    }
  }
  fmt::print("  takes prompts{}\n",
             is_usable ? "" : " that were encoded elsewhere: --prompt-embeds");
}

void print_classes(const ModelFacts& model) {
  constexpr std::size_t kShown = 40;
  std::vector<std::string> names;
  for (const auto& [id, name] : model.class_names) {
    names.push_back(names.size() < kShown ? id + " " + printable(name) : id);
  }
  fmt::print("  {} classes{}{}\n", model.classes,
             names.empty() ? ", without names" : ": ",
             config::join_names(names, kShown));
}

}  // namespace

void print_model(const std::string& path, const ModelFacts& model) {
  print_head(path, model);
  if (model.parameters && model.stored_bytes) {
    fmt::print("  {:.1f} million parameters, {} on disk\n",
               static_cast<double>(*model.parameters) / 1e6,
               human_bytes(*model.stored_bytes));
  }
  print_memory(model);
  fmt::print("  sampler {}\n", printable(model.sampler));
  for (const auto& [key, value] : model.defaults.items()) {
    fmt::print(
        "  default of --{}: {}\n", key,
        value.is_string() ? printable(value.get<std::string>()) : value.dump());
  }
  if (model.takes_prompts) {
    print_encoders(model);
  } else {
    print_classes(model);
  }
}

}  // namespace troupe::actors
