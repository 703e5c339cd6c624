#include "actors/cli/encode_offered.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/isa_in_force.h"
#include "actors/cli/member_request.h"
#include "actors/cli/prompt_source.h"
#include "actors/cli/text_encoding.h"
#include "kernels/core/error.h"
#include "kernels/core/pool.h"
#include "kernels/core/system.h"
#include "kernels/core/text.h"
#include "kernels/linear.h"

namespace troupe::actors {
namespace {

/// The encoders of the record, of this process's own model.
std::vector<PromptEncoderSource> own_encoders(const ModelSource& model,
                                              const EncodingRecord& record) {
  std::vector<PromptEncoderSource> encoders;
  for (const EncoderRecord& asked : record.encoders) {
    const models::PromptPipeline* const pipeline = model.pipeline();
    require(pipeline != nullptr, Errc::not_found, model.name(),
            "no pipeline says how prompts are encoded");
    const auto of = std::ranges::find(pipeline->encoders, asked.name,
                                      &models::PromptEncoder::encoder);
    require(of != pipeline->encoders.end(), Errc::invalid_argument,
            model.name(),
            "the pipeline has no " + in_quotes(asked.name) + " as the job's");
    PromptEncoderSource own = open_prompt_encoder(model, *of);
    require(own.record.class_name == asked.class_name &&
                own.record.config == asked.config,
            Errc::invalid_argument, model.name(),
            "another " + asked.name +
                " than the job's: their configurations differ",
            "give the folder that the job was started with");
    encoders.push_back(std::move(own));
  }
  return encoders;
}

/// Everything that can be refused before an encoder is read.
void check_work(const EncodingRecord& record, PromptEncoders encoders) {
  require(kernels::supports(record.dtype), Errc::unsupported, "cpu",
          "this processor cannot compute the job's " +
              std::string(to_string(record.dtype)) + " products");
  for (const EncodingText& text : record.texts) {
    const models::TextEncoderDescription& encoder =
        *encoders[static_cast<std::size_t>(text.encoder)].description;
    const auto [least, largest] = std::ranges::minmax(text.ids);
    require(least >= 0 && largest < encoder.vocab_size() &&
                std::ssize(text.ids) <= encoder.max_tokens() &&
                text.wanted.skipped_layers <= encoder.num_layers(),
            Errc::corrupt_file, "encoding record",
            "a text with ids or a layer that the encoder has not");
  }
  const std::uint64_t needed = encoding_bytes(record, encoders);
  const MemoryInfo memory = memory_info();
  require(needed <= memory.available_bytes, Errc::out_of_memory, "memory",
          "the text encoder does not fit: got " +
              human_bytes(memory.available_bytes) + " free, expected " +
              human_bytes(needed) + " (" + to_string(memory.binding()) + ")");
}

}  // namespace

void encode_offered(const config::Config& own, const EncodingRecord& record,
                    CompanyMember& member, StopFlag& stop) {
  config::Config config = own;
  if (record.random_weights) {
    config.random_weights = record.model;
  } else {
    config.model_dir = folder_of(own, record.model);
  }
  config.isa = record.isa;
  std::optional<IsaLevel> held;
  (void)try_hold_as_recipe(config, held);  // the class's name says the rest
  const ModelSource model = ModelSource::open(config);
  const std::vector<PromptEncoderSource> encoders = own_encoders(model, record);
  EncodingRecord work = record;
  const std::string here = encoder_class_here(record.dtype);
  if (here != record.execution_class) {
    for (EncodingText& text : work.texts) {
      text.is_kept = false;  // one class encodes all
    }
  }
  check_work(work, encoders);
  ExecContext ctx(num_usable_cores());
  const auto interrupt = [&ctx] { ctx.request_stop(); };
  const std::stop_callback by_signal(stop.token(), interrupt);
  const std::stop_callback by_end(member.ended(), interrupt);
  const std::vector<std::uint64_t> hashes = encode_texts(
      ctx, work, encoders,
      [&](std::size_t text, const models::EncodedText& encoded, std::uint64_t) {
        member.answer(TextEncoded{text, encoded});
      });
  member.answer(
      EncodingDone{here, encoder_class_here(record.dtype, hashes), hashes});
}

}  // namespace troupe::actors
