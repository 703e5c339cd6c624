#include "actors/cli/encode_offered.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/cli/encoder_device.h"
#include "actors/cli/isa_in_force.h"
#include "actors/cli/member_request.h"
#include "actors/cli/prompt_source.h"
#include "actors/cli/text_encoding.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/pool.h"
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

/// The texts that this device has to encode. A device of another class than the
/// record encodes the kept texts, too.
EncodingRecord work_for(const JobDevice& by, const EncodingRecord& record) {
  EncodingRecord work = record;
  if (encoder_class_of(by) != record.execution_class) {
    for (EncodingText& text : work.texts) {
      text.is_kept = false;
    }
  }
  return work;
}

/// The device of this process that encodes the texts. A GPU that is not probed
/// yet counts as another class than the asking one: so its forecast is for all
/// texts.
JobDevice device_for(const config::Config& config, const EncodingRecord& record,
                     PromptEncoders encoders) {
  const Gpus gpus;
  std::vector<std::string> notes;
  EncoderDevices devices{.on_cpu = record.dtype, .only = record.device};
  for (JobDevice& one : choose_devices(config, nullptr, gpus.found, notes)) {
    if (one.is_gpu()) {
      one.compute = record.dtype;
      devices.gpus.push_back(std::move(one));
    }
  }
  const EncoderDevice chosen = choose_encoder_device(
      devices, gpus,
      [&](const JobDevice& by) {
        return encoding_memory(work_for(by, record), encoders, by);
      },
      notes);
  for (const std::string& note : notes) {
    log_message(LogLevel::info, note);
  }
  return chosen.device;
}

/// Refuses texts that the encoders cannot read. Their costs can be computed
/// only after that.
void check_texts(const EncodingRecord& record, PromptEncoders encoders) {
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
}

/// What else can be refused before an encoder is read.
void check_device(const EncodingRecord& work, PromptEncoders encoders,
                  const JobDevice& by) {
  require(by.is_gpu() || kernels::supports(work.dtype), Errc::unsupported,
          "cpu",
          "this processor cannot compute the job's " +
              std::string(to_string(work.dtype)) + " products");
  check_encoder_memory(encoding_memory(work, encoders, by), "");
}

}  // namespace

void encode_offered(const config::Config& own, const EncodingRecord& record,
                    CompanyMember& member, StopFlag& stop) {
  config::Config config = own;
  config.isa = record.isa;
  std::optional<IsaLevel> held;
  (void)try_hold_as_recipe(config, held);  // the class's name says the rest
  const ModelSource model =
      open_model(own, record.model, record.random_weights);
  const std::vector<PromptEncoderSource> encoders = own_encoders(model, record);
  check_texts(record, encoders);
  const JobDevice by = device_for(own, record, encoders);
  const EncodingRecord work = work_for(by, record);
  check_device(work, encoders, by);
  ExecContext ctx(num_usable_cores(), by.device, by.options);
  const auto interrupt = [&ctx] { ctx.request_stop(); };
  const std::stop_callback by_signal(stop.token(), interrupt);
  const std::stop_callback by_end(member.ended(), interrupt);
  const std::vector<std::uint64_t> hashes = encode_texts(
      ctx, work, encoders,
      [&](std::size_t text, const models::EncodedText& encoded, std::uint64_t) {
        member.give_text(text, encoded, stop.token());
      });
  member.answer(EncodingDone{encoder_class_of(by), encoder_class_of(by, hashes),
                             hashes, by.device.kind});
}

}  // namespace troupe::actors
