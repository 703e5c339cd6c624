// A table file: one row per key of the objects that inspect builds by hand.
#include <array>

#include "actors/cli/json_fields.h"

namespace troupe::actors {
namespace {

constexpr std::array<const char*, 3> kInspect[] = {
    {"items", "array of objects", "one per path, in their order"},
    {"items[].kind", "string",
     "checkpoint, bundled (a name of --random-weights), safetensors, npz, npy "
     "or image"},
    {"items[].path", "string", "as given"},
    {"items[].description", "string", "bundled: what it is"},
    {"items[].pipeline", "string", "model: class of the pipeline, or empty"},
    {"items[].architecture", "string", "model: class of the network"},
    {"items[].network", "object", "model: numbers that it is known by"},
    {"items[].network.blocks", "integer", "transformer blocks"},
    {"items[].network.width", "integer", "channels of a token"},
    {"items[].network.heads", "integer", "attention heads"},
    {"items[].network.tokens", "integer", "tokens of an image"},
    {"items[].network.caption_width", "integer",
     "channels of a prompt's token"},
    {"items[].network.levels", "integer", "UNet: sizes of its feature maps"},
    {"items[].network.widest", "integer", "UNet: most channels of a level"},
    {"items[].network.transformer_blocks", "integer",
     "UNet: those of all its levels"},
    {"items[].latents", "string", "model: shape of one sample's latents"},
    {"items[].resolution_bins", "integer",
     "model: sizes that it samples at; 0: any"},
    {"items[].autoencoder", "string", "model: class of the VAE, or empty"},
    {"items[].parameters", "integer", "checkpoint: of the network"},
    {"items[].stored_bytes", "integer", "checkpoint: bytes of its weights"},
    {"items[].memory_bytes_f32", "integer", "model: one guided image"},
    {"items[].memory_bytes_bf16", "integer", "model: the same in bf16"},
    {"items[].memory", "array of objects", "model: needs by device"},
    {"items[].memory[].device", "string", "cpu, cuda:N or a GPU"},
    {"items[].memory[].dtype", "string", "dtype that is meant"},
    {"items[].memory[].weights_bytes", "integer", "weights"},
    {"items[].memory[].image_bytes", "integer", "activations of one image"},
    {"items[].memory[].memory_bytes", "integer", "all of it for one image"},
    {"items[].memory[].available_bytes", "integer or null", "what is free"},
    {"items[].memory[].fits", "boolean or null", "whether that is enough"},
    {"items[].sampler", "string", "model: as --sampler names it"},
    {"items[].takes_prompts", "boolean", "model: prompts instead of classes"},
    {"items[].text_encoders", "array of objects",
     "model: those of its pipeline; none where prompts must be encoded "
     "elsewhere"},
    {"items[].text_encoders[].name", "string", "its folder"},
    {"items[].text_encoders[].problem", "string",
     "why it cannot be used; absent otherwise"},
    {"items[].text_encoders[].class", "string", "class of the network"},
    {"items[].text_encoders[].width", "integer", "numbers for each token"},
    {"items[].text_encoders[].layers", "integer", "its layers"},
    {"items[].text_encoders[].parameters", "integer", "checkpoint: of it"},
    {"items[].text_encoders[].memory_bytes_f32", "integer",
     "while it encodes a prompt; let go before the network is read"},
    {"items[].text_encoders[].memory_bytes_bf16", "integer",
     "the same in bf16"},
    {"items[].text_encoders[].tokenizer", "object", "what makes its tokens"},
    {"items[].text_encoders[].tokenizer.name", "string", "its folder"},
    {"items[].text_encoders[].tokenizer.problem", "string",
     "why it cannot be used; absent otherwise"},
    {"items[].text_encoders[].tokenizer.kind", "string", "CLIP or T5"},
    {"items[].text_encoders[].tokenizer.vocabulary", "integer",
     "largest id + 1"},
    {"items[].text_encoders[].tokenizer.longest_prompt", "integer",
     "tokens, with the marks around them"},
    {"items[].text_encoders[].tokenizer.stand_in", "boolean",
     "bundled and made for tests: ids differ from the real one's"},
    {"items[].classes", "integer", "model: classes to choose from"},
    {"items[].defaults", "object",
     "model: of its sampling.json and its pipeline"},
    {"items[].defaults.*", "string, number or boolean", "an option's value"},
    {"items[].class_names", "object", "model: names by class id"},
    {"items[].class_names.*", "string", "names with commas"},
    {"items[].tensors", "array of objects", "tensor file: what it holds"},
    {"items[].tensors[].name", "string", "name"},
    {"items[].tensors[].dtype", "string", "type of an element, as stored"},
    {"items[].tensors[].shape", "string", "[extent, …]"},
    {"items[].tensors[].bytes", "integer", "bytes in the file"},
    {"items[].tensors_left_out", "integer", ".safetensors: not listed"},
    {"items[].metadata", "object", ".safetensors: texts of its header"},
    {"items[].metadata.*", "string", "any text"},
    {"items[].metadata_left_out", "integer", ".safetensors: not listed"},
    {"items[].elements", "integer", "tensor file: of all tensors"},
    {"items[].width", "integer", "image: pixels"},
    {"items[].height", "integer", "image: pixels"},
    {"items[].pixels_xxh3", "string", "image: XXH3-64 of its RGB bytes"},
    {"items[].stand_in_tokenizer", "boolean",
     "image: a bundled tokenizer, made for tests, read its prompt"},
    {"items[].recipe", "object or null", "image: see recipe below"},
    {"items[].seed_text", "string or null",
     "image: its recipe's seed, for readers of doubles (jq)"},
};

}  // namespace

std::vector<JsonField> inspect_json_fields() {
  JsonRows rows;
  for (const auto& [path, type, meaning] : kInspect) {
    rows.add(path, type, meaning);
  }
  rows.begin("items[].error", "why it cannot be read; absent otherwise");
  const Error example = example_of<Error>();
  visit_fields(rows, example);
  return std::move(rows).rows();
}

}  // namespace troupe::actors
