#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/files/json.h"
#include "models/files/safetensors.h"
#include "models/text/text_encoder.h"

namespace troupe::models {

/// What an encoder is asked for.
struct EncoderCase {
  std::vector<std::int32_t> ids;
  std::int64_t key_length = 0;
  HiddenState wanted;

  [[nodiscard]] EncodedText run(ExecContext& ctx,
                                const TextEncoder& encoder) const {
    return encoder.encode(ctx, ids, key_length, wanted);
  }
};

/// Case `index` of a file: "0.ids" [n] and "0.wanted" (key length, layers left
/// out, whether the final norm is applied), both i64.
inline std::optional<EncoderCase> read_case(const SafetensorsFile& file,
                                            int index) {
  const std::string name = std::to_string(index);
  const auto ids = file.find(name + ".ids");
  const auto wanted = file.find(name + ".wanted");
  if (!ids || !wanted) {
    return std::nullopt;
  }
  EncoderCase one;
  const Tensor id_tensor = file.read(*ids);
  for (const std::int64_t id : id_tensor.span<std::int64_t>()) {
    one.ids.push_back(static_cast<std::int32_t>(id));
  }
  const Tensor numbers = file.read(*wanted);
  const std::int64_t* values = numbers.data<std::int64_t>();
  one.key_length = values[0];
  one.wanted = {.skipped_layers = static_cast<int>(values[1]),
                .final_norm = values[2] != 0};
  return one;
}

/// A folder that transformers wrote, with one file of weights.
struct EncoderFolder {
  explicit EncoderFolder(const std::filesystem::path& folder)
      : config(Json::read_file(folder / "config.json")),
        class_name(config.string_list("architectures").at(0)),
        description(find_text_encoder(config, class_name).describe(config)),
        files({folder / "model.safetensors"}) {}

  [[nodiscard]] std::unique_ptr<TextEncoder> load(ExecContext& ctx,
                                                  DType compute) const {
    FileWeights weights(ctx, files);
    return description->load(ctx, compute, weights);
  }

  Json config;
  std::string class_name;
  std::unique_ptr<TextEncoderDescription> description;
  TensorFiles files;
};

}  // namespace troupe::models
