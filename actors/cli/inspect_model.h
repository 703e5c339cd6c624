#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/artefacts/json_writer.h"
#include "kernels/core/dtype.h"
#include "kernels/core/fields.h"
#include "models/description.h"

// What `inspect` says of a model. Each struct is followed by the list of its
// fields, in the order of the JSON.

namespace troupe::actors {

/// Memory that a device needs for one image with both branches of guidance.
struct DeviceNeeds {
  std::string device;
  DType dtype = DType::f32;
  std::uint64_t weights_bytes = 0;
  std::uint64_t image_bytes = 0;
  std::uint64_t memory_bytes = 0;
  std::optional<std::uint64_t> available_bytes;  ///< unset: not known

  [[nodiscard]] std::optional<bool> fits() const {
    return available_bytes ? std::optional(memory_bytes <= *available_bytes)
                           : std::nullopt;
  }
};

void visit_fields(auto& visit, AnyConst<DeviceNeeds> auto& r) {
  visit({"device", "cpu, cuda:N or a GPU"}, r.device);
  visit({"dtype", "dtype that is meant"}, r.dtype);
  visit({"weights_bytes", "weights"}, r.weights_bytes);
  visit({"image_bytes", "activations of one image"}, r.image_bytes);
  visit({"memory_bytes", "all of it for one image"}, r.memory_bytes);
  visit(or_null({"available_bytes", "what is free"}), r.available_bytes);
  visit(or_null({"fits", "whether that is enough"}), r.fits());
}

/// A part of a pipeline, or why it cannot be used.
template <typename Facts>
struct PipelinePart {
  std::string name;
  std::string problem = {};
  std::optional<Facts> facts = {};  ///< unset: there is a problem
};

template <typename Facts>
void visit_fields(auto& visit, const PipelinePart<Facts>& r) {
  visit({"name", "its folder"}, r.name);
  visit(if_any({"problem", "why it cannot be used; absent otherwise"}),
        r.problem);
  visit_part(visit, r.facts);
}

struct EncoderFacts {
  std::string class_name;
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::optional<std::uint64_t> parameters;  ///< unset: random weights
  std::uint64_t memory_bytes_f32 = 0;
  std::uint64_t memory_bytes_bf16 = 0;
};

void visit_fields(auto& visit, AnyConst<EncoderFacts> auto& r) {
  visit({"class", "class of the network"}, r.class_name);
  visit({"width", "numbers for each token"}, r.width);
  visit({"layers", "its layers"}, r.layers);
  visit({"parameters", "checkpoint: of it"}, r.parameters);
  visit({"memory_bytes_f32",
         "while it encodes a prompt; let go before the network is read"},
        r.memory_bytes_f32);
  visit({"memory_bytes_bf16", "the same in bf16"}, r.memory_bytes_bf16);
}

struct TokenizerFacts {
  std::string kind;
  std::int64_t vocabulary = 0;
  std::int64_t longest_prompt = 0;
  bool stand_in = false;
};

void visit_fields(auto& visit, AnyConst<TokenizerFacts> auto& r) {
  visit({"kind", "CLIP or T5"}, r.kind);
  visit({"vocabulary", "largest id + 1"}, r.vocabulary);
  visit({"longest_prompt", "tokens, with the marks around them"},
        r.longest_prompt);
  visit({"stand_in",
         "bundled and made for tests: ids differ from the real one's"},
        r.stand_in);
}

struct EncoderParts {
  PipelinePart<EncoderFacts> encoder;
  PipelinePart<TokenizerFacts> tokenizer;
};

void visit_fields(auto& visit, AnyConst<EncoderParts> auto& r) {
  visit_fields(visit, r.encoder);
  visit({"tokenizer", "what makes its tokens"}, r.tokenizer);
}

struct ModelFacts {
  std::string description = {};  ///< empty: it is a checkpoint
  std::string pipeline = {};
  std::string architecture = {};
  std::string autoencoder = {};
  std::optional<std::uint64_t> parameters = {};    ///< unset: random weights
  std::optional<std::uint64_t> stored_bytes = {};  ///< the same
  nlohmann::ordered_json defaults = {};            ///< values by option
  JsonObject<std::string> class_names = {};
  models::NetworkFacts network = {};
  std::string latents = {};
  std::size_t resolution_bins = 0;
  std::uint64_t memory_bytes_f32 = 0;
  std::uint64_t memory_bytes_bf16 = 0;
  std::vector<DeviceNeeds> memory = {};
  std::string sampler = {};
  bool takes_prompts = false;
  std::vector<EncoderParts> text_encoders = {};
  std::int64_t classes = 0;
};

void visit_fields(auto& visit, AnyConst<ModelFacts> auto& r) {
  visit(if_any({"description", "bundled: what it is"}), r.description);
  visit({"pipeline", "model: class of the pipeline, or empty"}, r.pipeline);
  visit({"architecture", "model: class of the network"}, r.architecture);
  visit({"autoencoder", "model: class of the VAE, or empty"}, r.autoencoder);
  visit({"parameters", "checkpoint: of the network"}, r.parameters);
  visit({"stored_bytes", "checkpoint: bytes of its weights"}, r.stored_bytes);
  visit(each_is("an option's value",
                {"defaults", "model: of its sampling.json and its pipeline"}),
        r.defaults);
  visit(
      each_is("names with commas", {"class_names", "model: names by class id"}),
      r.class_names);
  visit({"network", "model: numbers that it is known by"}, r.network);
  visit({"latents", "model: shape of one sample's latents"}, r.latents);
  visit({"resolution_bins", "model: sizes that it samples at; 0: any"},
        r.resolution_bins);
  visit({"memory_bytes_f32", "model: one guided image"}, r.memory_bytes_f32);
  visit({"memory_bytes_bf16", "model: the same in bf16"}, r.memory_bytes_bf16);
  visit({"memory", "model: needs by device"}, r.memory);
  visit({"sampler", "model: as --sampler names it"}, r.sampler);
  visit({"takes_prompts", "model: prompts instead of classes"},
        r.takes_prompts);
  visit({"text_encoders",
         "model: those of its pipeline; none where prompts must be encoded "
         "elsewhere"},
        r.text_encoders);
  visit({"classes", "model: classes to choose from"}, r.classes);
}

/// A checkpoint folder. Errors: those of ModelSource::open; those of its text
/// encoders' and tokenizers' files. What Troupe does not have is said in the
/// facts, and is no error.
[[nodiscard]] ModelFacts describe_checkpoint(const std::string& path);

/// Whether --random-weights takes this name.
[[nodiscard]] bool is_bundled_model(const std::string& name);
/// A bundled model, by a name that --random-weights takes.
[[nodiscard]] ModelFacts describe_bundled(const std::string& name);

/// Either of them, as lines of text.
void print_model(const std::string& path, const ModelFacts& model);

}  // namespace troupe::actors
