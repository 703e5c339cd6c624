#include "actors/encoding_record.h"

#include "actors/job_classes.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

// Far above what pipelines have, and far below what takes the memory away.
constexpr std::size_t kMostOfAPipeline = 8;
constexpr std::size_t kMostIds = 4096;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostConfig = std::size_t{1} << 20U;
constexpr int kMostLayers = 1 << 16;

void check_that(bool holds, const char* otherwise) {
  require(holds, Errc::corrupt_file, "encoding record", otherwise);
}

}  // namespace

void check(const EncodingRecord& record) {
  check_that(!record.model.empty() && record.model.size() <= kMostName,
             "the model has no name");
  check_that(record.dtype == DType::f32 || record.dtype == DType::bf16,
             "encoders compute in f32 or bf16");
  check_that(is_class_name(record.execution_class),
             "a class whose name is not 16 hexadecimal digits");
  check_that(
      !record.encoders.empty() && record.encoders.size() <= kMostOfAPipeline,
      "it has no encoders, or more than any pipeline");
  for (const EncoderRecord& encoder : record.encoders) {
    check_that(!encoder.name.empty() && encoder.name.size() <= kMostName &&
                   !encoder.class_name.empty() &&
                   encoder.class_name.size() <= kMostName &&
                   encoder.config.size() <= kMostConfig,
               "an encoder without a name, or with a long one");
  }
  check_that(!record.texts.empty() && record.texts.size() <= kMostEncodingTexts,
             "it has no texts, or more than a message holds");
  for (const EncodingText& text : record.texts) {
    check_that(text.encoder >= 0 && static_cast<std::size_t>(text.encoder) <
                                        record.encoders.size(),
               "a text of an encoder that is not there");
    check_that(!text.ids.empty() && text.ids.size() <= kMostIds,
               "a text of no ids, or of more than any encoder reads");
    check_that(text.key_length >= 0 && text.key_length <= std::ssize(text.ids),
               "a text with a mask that is longer than it");
    check_that(text.wanted.skipped_layers >= 0 &&
                   text.wanted.skipped_layers <= kMostLayers,
               "a layer that no encoder has");
  }
}

}  // namespace troupe::actors
