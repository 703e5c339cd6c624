#include "models/text/text_encoder.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {

extern const TextEncoderRow kClipText;
extern const TextEncoderRow kClipTextWithProjection;
extern const TextEncoderRow kT5Encoder;

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
