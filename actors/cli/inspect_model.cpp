#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "actors/cli/execution_class.h"
#include "actors/cli/inspect_items.h"
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
#include "kernels/core/system.h"

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

/// What one device must hold for one image at a time, both guidance branches,
/// and how many it has room for.
InspectedItem needs_on(const std::string& name, bool is_gpu, DType compute,
                       const ModelSource& source,
                       std::optional<std::uint64_t> available) {
  const MemoryNeeds needs = memory_needs(
      source, is_gpu ? DeviceKind::cuda : DeviceKind::cpu, compute);
  const std::uint64_t image = 2 * needs.network.of_rows(1);
  const std::uint64_t shared = needs.weights_bytes + needs.decode_bytes +
                               needs.scratch.of(1) +
                               (is_gpu ? kGpuOverhead : 0);
  return {{"device", name},
          {"dtype", to_string(compute)},
          {"weights_bytes", needs.weights_bytes},
          {"image_bytes", image},
          {"memory_bytes", shared + image},
          {"available_bytes",
           available ? InspectedItem(*available) : InspectedItem()},
          {"fits", available ? InspectedItem(shared + image <= *available)
                             : InspectedItem()}};
}

InspectedItem needs_by_device(const ModelSource& source) {
  InspectedItem list = InspectedItem::array();
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
InspectedItem describe_defaults(const std::vector<config::Setting>& settings) {
  InspectedItem json = InspectedItem::object();
  for (const config::Setting& setting : settings) {
    const config::Option& option = *config::find_option(setting.key);
    json[std::string(option.key)] = option.kind() == config::ValueKind::text
                                        ? InspectedItem(setting.text)
                                        : InspectedItem::parse(setting.text);
  }
  return json;
}

/// fn() fills the item. What cannot be used is no error of inspect: prompts may
/// come encoded (--prompt-embeds).
template <typename Fn>
void describe_usable(InspectedItem& item, const Fn& fn) {
  try {
    fn();
  } catch (const Error& error) {
    if (error.code() != Errc::unsupported && error.code() != Errc::not_found) {
      throw;
    }
    item["problem"] = error.message();
  }
}

InspectedItem describe_encoder(const ModelSource& source,
                               const models::PromptEncoder& of) {
  InspectedItem item = {{"name", of.encoder}};
  InspectedItem words = {{"name", of.tokenizer}};
  std::shared_ptr<const models::Tokenizer> tokenizer;
  describe_usable(words,
                  [&] { tokenizer = open_prompt_tokenizer(source, of); });
  std::int64_t longest = of.most_tokens;
  describe_usable(item, [&] {
    const PromptEncoderSource encoder = open_prompt_encoder(source, of);
    const models::TextEncoderDescription& about = *encoder.description;
    longest = tokenizer == nullptr
                  ? std::min(longest, about.max_tokens())
                  : prompt_length(source, of, *tokenizer, about);
    const auto memory = [&](DType dtype) {
      return about.weights_bytes(dtype) + about.pass_bytes(longest, dtype);
    };
    item["class"] = encoder.record.class_name;
    item["width"] = about.width();
    item["layers"] = about.num_layers();
    if (encoder.files != nullptr) {
      item["parameters"] = num_parameters(*encoder.files);
    }
    item["memory_bytes_f32"] = memory(DType::f32);
    item["memory_bytes_bf16"] = memory(DType::bf16);
  });
  if (tokenizer != nullptr) {
    words["kind"] = tokenizer->kind();
    words["vocabulary"] = tokenizer->vocab_size();
    words["longest_prompt"] = longest;
    words["stand_in"] = source.is_random();
  }
  item["tokenizer"] = std::move(words);
  return item;
}

InspectedItem describe_encoders(const ModelSource& source) {
  InspectedItem list = InspectedItem::array();
  if (source.takes_prompts() && source.pipeline() != nullptr) {
    for (const models::PromptEncoder& part : source.pipeline()->encoders) {
      list.push_back(describe_encoder(source, part));
    }
  }
  return list;
}

InspectedItem describe_network(const ModelSource& source) {
  InspectedItem network = InspectedItem::object();
  for (const models::NetworkFact& fact : source.denoiser().facts()) {
    network[std::string(fact.name)] = fact.value;
  }
  return network;
}

/// What is known of every model, behind what `item` says already.
void add_model(const ModelSource& source, InspectedItem& item) {
  item.update(InspectedItem{
      {"network", describe_network(source)},
      {"latents", to_string(source.latent_shape())},
      {"resolution_bins", source.bins().size()},
      {"memory_bytes_f32", required_bytes(source, DType::f32, 1, 1, 2)},
      {"memory_bytes_bf16", required_bytes(source, DType::bf16, 1, 1, 2)},
      {"memory", needs_by_device(source)},
      {"sampler", describe_scheduler(source)},
      {"takes_prompts", source.takes_prompts()},
      {"text_encoders", describe_encoders(source)},
      {"classes", source.info(DType::f32).num_classes}});
}

}  // namespace

InspectedItem describe_checkpoint(const std::string& path) {
  config::Config config;
  config.model_dir = path;
  const ModelSource source = ModelSource::open(config);
  const models::Checkpoint& checkpoint = *source.checkpoint();
  std::vector<std::string> notes;
  note_networks(checkpoint, source.denoiser(), notes);
  note_scheduler(checkpoint, notes);
  print_notes(notes);
  InspectedItem item = {
      {"kind", "checkpoint"},
      {"path", path},
      {"pipeline", checkpoint.pipeline_class},
      {"architecture", checkpoint.denoiser.class_name},
      {"autoencoder", checkpoint.vae ? checkpoint.vae->class_name : ""},
      {"parameters", num_parameters(checkpoint.denoiser)},
      {"stored_bytes", checkpoint.stored_bytes()},
      {"defaults", describe_defaults(config::read_sampling_defaults(path))},
      {"class_names", InspectedItem::object()}};
  add_model(source, item);
  InspectedItem::object_t& names = as_list(item["class_names"]);
  names.reserve(checkpoint.class_names.size());
  for (const auto& [id, name] : checkpoint.class_names) {
    names.emplace_back(std::to_string(id), name);
  }
  return item;
}

bool is_bundled_model(const std::string& name) {
  return std::ranges::find(config::bundled_models(), name,
                           &config::BundledModel::name) !=
         config::bundled_models().end();
}

InspectedItem describe_bundled(const std::string& name) {
  const auto class_in = [&](std::string_view json) {
    return json.empty()
               ? std::string()
               : models::Json::parse(json, name).string("_class_name", "");
  };
  config::Config config;
  config.random_weights = name;
  const ModelSource source = ModelSource::open(config);
  const config::BundledModel& model = config::find_bundled_model(name);
  InspectedItem item = {
      {"kind", "bundled"},
      {"path", name},
      {"description", model.description},
      {"pipeline", model.pipeline},
      {"architecture", class_in(model.denoiser)},
      {"autoencoder", class_in(model.vae)},
      {"defaults",
       describe_defaults(config::pipeline_defaults(model.pipeline, name))},
      {"class_names", InspectedItem::object()}};
  add_model(source, item);
  return item;
}

namespace {

/// "12 blocks", "caption width 4096 channels".
std::string fact_text(std::string name, int value) {
  std::ranges::replace(name, '_', ' ');
  return name.starts_with("wid") || name.ends_with("width")
             ? fmt::format("{} {} channels", name, value)
             : fmt::format("{} {}", value, name);
}

void print_head(const InspectedItem& j) {
  const std::string& pipeline = string_of(j["pipeline"]);
  fmt::print("{}: {}{}\n", string_of(j["path"]), text_of(j["architecture"]),
             j["kind"] == "bundled" && pipeline.empty()
                 ? std::string()
                 : " (" + printable(pipeline) + ")");
  if (j["kind"] == "bundled") {
    fmt::print("  bundled, for --random-weights: {}\n",
               string_of(j["description"]));
  }
  std::string facts;
  for (const auto& fact : j["network"].items()) {
    facts += fact_text(fact.key(), fact.value().get<int>()) + ", ";
  }
  fmt::print("  {}latents {} (channels, height, width){}\n", facts,
             string_of(j["latents"]),
             j["autoencoder"] == "" ? ", no autoencoder: pixel space" : "");
  if (const auto bins = j["resolution_bins"].get<int>(); bins > 0) {
    fmt::print("  {} resolution bins: sampled at the one nearest to --size\n",
               bins);
  }
}

void print_memory(const InspectedItem& j) {
  fmt::print("  memory with guidance: {} in f32, {} in bf16\n",
             size_of(j["memory_bytes_f32"]), size_of(j["memory_bytes_bf16"]));
  for (const InspectedItem& needs : j["memory"]) {
    fmt::print(
        "  {}: {} with {} of weights in {}, {} per image{}\n",
        string_of(needs["device"]), size_of(needs["memory_bytes"]),
        size_of(needs["weights_bytes"]), string_of(needs["dtype"]),
        size_of(needs["image_bytes"]),
        needs["fits"].is_null()
            ? std::string()
            : fmt::format("; {} free: {}", size_of(needs["available_bytes"]),
                          needs["fits"].get<bool>() ? "fits" : "does not fit"));
  }
}

void print_tokenizer(const InspectedItem& j) {
  if (j.contains("problem")) {
    fmt::print("  {}: {}\n", string_of(j["name"]), text_of(j["problem"]));
    return;
  }
  fmt::print("  {}: {}, {} ids, prompts of up to {} tokens with their marks\n",
             string_of(j["name"]), string_of(j["kind"]),
             j["vocabulary"].get<std::int64_t>(),
             j["longest_prompt"].get<std::int64_t>());
  if (j["stand_in"].get<bool>()) {
    fmt::print(
        "  {}: a stand-in, bundled and made for tests: its ids differ "
        "from those of the real one\n",
        string_of(j["name"]));
  }
}

void print_encoders(const InspectedItem& j) {
  bool is_usable = true;
  for (const InspectedItem& encoder : j["text_encoders"]) {
    const bool has_problem = encoder.contains("problem");
    is_usable =
        is_usable && !has_problem && !encoder["tokenizer"].contains("problem");
    fmt::print(
        "  {}: {}\n", string_of(encoder["name"]),
        has_problem
            ? text_of(encoder["problem"])
            : fmt::format(
                  "{}, width {} channels, {} layers{}; memory {} in f32, {} in "
                  "bf16",
                  text_of(encoder["class"]),
                  encoder["width"].get<std::int64_t>(),
                  encoder["layers"].get<std::int64_t>(),
                  encoder.contains("parameters")
                      ? fmt::format(", {:.1f} million parameters",
                                    encoder["parameters"].get<double>() / 1e6)
                      : std::string(),
                  size_of(encoder["memory_bytes_f32"]),
                  size_of(encoder["memory_bytes_bf16"])));
    print_tokenizer(encoder["tokenizer"]);
  }
  fmt::print("  takes prompts{}\n",
             is_usable && !j["text_encoders"].empty()
                 ? ""
                 : " that were encoded elsewhere: --prompt-embeds");
}

void print_classes(const InspectedItem& j) {
  fmt::print("  {} classes", j["classes"].get<int>());
  constexpr std::size_t kShown = 40;
  std::vector<std::string> names;
  for (const auto& [id, name] : j["class_names"].items()) {
    names.push_back(names.size() < kShown ? id + " " + text_of(name) : id);
  }
  fmt::print("{}{}\n", names.empty() ? ", without names" : ": ",
             config::join_names(names, kShown));
}

}  // namespace

void print_model(const InspectedItem& j) {
  print_head(j);
  if (j.contains("stored_bytes")) {
    fmt::print("  {:.1f} million parameters, {} on disk\n",
               j["parameters"].get<double>() / 1e6, size_of(j["stored_bytes"]));
  }
  print_memory(j);
  fmt::print("  sampler {}\n", text_of(j["sampler"]));
  for (const auto& [key, value] : j["defaults"].items()) {
    fmt::print("  default of --{}: {}\n", key,
               value.is_string() ? text_of(value) : value.dump());
  }
  if (j["takes_prompts"].get<bool>()) {
    print_encoders(j);
  } else {
    print_classes(j);
  }
}

}  // namespace troupe::actors
