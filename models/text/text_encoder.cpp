#include "models/text/text_encoder.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/network/layer_reader.h"
#include "models/text/encoder_parts.h"

namespace troupe::models {

extern const TextEncoderRow kClipText;
extern const TextEncoderRow kClipTextWithProjection;
extern const TextEncoderRow kT5Encoder;

TextEncoderCosts TextEncoderDescription::costs(std::int64_t tokens,
                                               DType compute,
                                               DeviceKind kind) const {
  ExecContext ctx(std::make_shared<Meter>(kind));
  LayerReader reader(ctx, compute, WeightPlacement::resident);
  const auto encoder = read(reader, spellings_.front(), compute);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  (void)encoder->encode(ctx, ids, tokens, {});
  return {.flops = ctx.meter().flops(),
          .weights_bytes = reader.num_bytes(),
          .table_bytes = reader.host_bytes(),
          .pass_bytes = ctx.workspace().peak_bytes()};
}

std::vector<TensorSpec> TextEncoderDescription::specs(
    std::string_view spelling) const {
  std::vector<TensorSpec> specs;
  LayerReader reader(specs);
  (void)read(reader, spelling, DType::f32);
  return specs;
}

ClassTensors TextEncoderDescription::tensors() const {
  ClassTensors tensors = unread_;
  for (const std::string_view spelling : spellings_) {
    for (TensorSpec& spec : specs(spelling)) {
      tensors.names.push_back(std::move(spec.name));
    }
  }
  return tensors;
}

std::string_view TextEncoderDescription::checked_spelling(
    WeightSource& weights) const {
  for (const std::string_view spelling : spellings_) {
    const std::vector<TensorSpec> specs = this->specs(spelling);
    if (weights.has(specs.front().name) || spelling == spellings_.back()) {
      weights.check(specs);
      return spelling;
    }
  }
  return {};
}

std::unique_ptr<TextEncoder> TextEncoderDescription::load(
    ExecContext& ctx, DType compute, WeightSource& weights) const {
  const std::string_view spelling = checked_spelling(weights);
  LayerReader reader(ctx, compute, weights);
  std::unique_ptr<TextEncoder> encoder = read(reader, spelling, compute);
  encoder->hash_ = hash_with_config(weights.hash());
  ctx.synchronize();  // every context of the device may read them
  return encoder;
}

std::uint64_t TextEncoderDescription::weights_hash(
    ExecContext& ctx, WeightSource& weights) const {
  const std::string_view spelling = checked_spelling(weights);
  LayerReader reader(ctx, weights);
  (void)read(reader, spelling, DType::f32);
  return hash_with_config(weights.hash());
}

TextEncoderTable text_encoder_table() {
  static constexpr const TextEncoderRow* kTable[] = {
      &kClipText, &kClipTextWithProjection, &kT5Encoder};
  return kTable;
}

const TextEncoderRow& find_text_encoder(const Json& config,
                                        std::string_view class_name,
                                        TextEncoderTable table) {
  std::string names;
  for (const TextEncoderRow* row : table) {
    if (row->class_name == class_name) {
      return *row;
    }
    names += (names.empty() ? "" : ", ") + std::string(row->class_name);
  }
  throw Error(Errc::unsupported, config.place(),
              "text encoder: got class " + in_quotes(class_name) +
                  ", expected one of " + names,
              "this text encoder cannot be run");
}

}  // namespace troupe::models
