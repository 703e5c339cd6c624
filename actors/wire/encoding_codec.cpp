#include "actors/wire/encoding_codec.h"

#include <optional>
#include <utility>

namespace troupe::actors::wire {
namespace {

template <typename Enum>
Enum known_value(const std::string& name) {
  const std::optional<Enum> value = value_named<Enum>(name);
  if (!value) {
    refuse("no such value: " + in_quotes(name));
  }
  return *value;
}

void write(const EncoderRecord& encoder, proto::Encoder& to) {
  to.set_name(encoder.name);
  to.set_class_name(encoder.class_name);
  to.set_config(encoder.config);
}

EncoderRecord read(const proto::Encoder& from) {
  return {from.name(), from.class_name(), from.config()};
}

void write(const EncodingText& text, proto::EncodingText& to) {
  to.set_encoder(text.encoder);
  to.mutable_ids()->Add(text.ids.begin(), text.ids.end());
  to.set_skipped_layers(text.wanted.skipped_layers);
  to.set_final_norm(text.wanted.final_norm);
  to.set_is_kept(text.is_kept);
  to.set_key_length(static_cast<std::int32_t>(text.key_length));
}

EncodingText read(const proto::EncodingText& from) {
  return {natural(from.encoder()),
          {from.ids().begin(), from.ids().end()},
          {natural(from.skipped_layers()), from.final_norm()},
          from.is_kept(),
          natural(from.key_length())};
}

}  // namespace

void write(const EncodingOffer& offer, proto::News& news) {
  const EncodingRecord& record = offer.record;
  proto::EncodingOffer& to = *news.mutable_encoding_offer();
  to.set_model(record.model);
  to.set_random_weights(record.random_weights);
  to.set_dtype(config::name_of(record.dtype));
  if (record.isa) {
    to.set_isa(config::name_of(*record.isa));
  }
  if (record.device) {
    to.set_device(config::name_of(*record.device));
  }
  to.set_execution_class(record.execution_class);
  for (const EncoderRecord& encoder : record.encoders) {
    write(encoder, *to.add_encoders());
  }
  to.mutable_texts()->Reserve(static_cast<int>(record.texts.size()));
  for (const EncodingText& text : record.texts) {
    write(text, *to.add_texts());
  }
}

EncodingOffer read(const proto::EncodingOffer& from) {
  check_class_name(from.execution_class());
  EncodingRecord record{.model = from.model(),
                        .random_weights = from.random_weights(),
                        .dtype = known_value<DType>(from.dtype()),
                        .execution_class = from.execution_class()};
  if (from.has_isa()) {
    record.isa = known_value<IsaLevel>(from.isa());
  }
  if (from.has_device()) {
    record.device = known_value<DeviceKind>(from.device());
  }
  for (const proto::Encoder& encoder : from.encoders()) {
    record.encoders.push_back(read(encoder));
  }
  record.texts.reserve(static_cast<std::size_t>(from.texts_size()));
  for (const proto::EncodingText& text : from.texts()) {
    record.texts.push_back(read(text));
  }
  return {std::move(record)};
}

void write(const StandBy& /*stand_by*/, proto::News& news) {
  news.mutable_stand_by();
}

void write(const TextEncoded& text, proto::News& news) {
  proto::TextEncoded& to = *news.mutable_text_encoded();
  to.set_text(text.text);
  put_named({"hidden", text.encoded.hidden}, *to.mutable_hidden());
  put_named({"pooled", text.encoded.pooled}, *to.mutable_pooled());
}

TextEncoded read(const proto::TextEncoded& from) {
  return {from.text(),
          {named_of(from.hidden()).tensor, named_of(from.pooled()).tensor}};
}

void write(const EncodingDone& done, proto::News& news) {
  proto::EncodingDone& to = *news.mutable_encoding_done();
  to.set_execution_class(done.execution_class);
  to.set_encoder_class(done.encoder_class);
  to.mutable_weights_xxh3()->Add(done.weights_xxh3.begin(),
                                 done.weights_xxh3.end());
  to.set_device(config::name_of(done.device));
}

EncodingDone read(const proto::EncodingDone& from) {
  check_class_name(from.execution_class());
  check_class_name(from.encoder_class());
  return {from.execution_class(),
          from.encoder_class(),
          {from.weights_xxh3().begin(), from.weights_xxh3().end()},
          known_value<DeviceKind>(from.device())};
}

void write(const EncodingRefused& refused, proto::News& news) {
  write(refused.cause, *news.mutable_encoding_refused()->mutable_cause());
}

EncodingRefused read(const proto::EncodingRefused& from) {
  return {read(from.cause())};
}

void write(const NextJob& /*next*/, proto::News& news) {
  news.mutable_next_job();
}

}  // namespace troupe::actors::wire
