#pragma once

#include <cstdint>
#include <vector>

#include "actors/encoding_record.h"
#include "actors/session.h"

namespace troupe::actors {

/// What an encoder makes of a text of n ids: [n, width], and [pooled_width]
/// where that is not 0.
struct EncoderShape {
  std::int64_t width = 0;
  std::int64_t pooled_width = 0;
};

/// What one process makes of the texts of a record, as it comes. Everything is
/// held against the record before it is used. Thread: one at a time.
class EncodingAnswer {
 public:
  /// Keeps references. `shapes`: of the record's encoders.
  EncodingAnswer(const EncodingRecord& record,
                 const std::vector<EncoderShape>& shapes);

  /// Errors: Errc::corrupt_file for a text that is not in the record, or came
  /// before, and for vectors of another shape or with a NaN or an infinity.
  void take(TextEncoded text);
  /// All that came; once. Errors: Errc::corrupt_file if something is missing.
  [[nodiscard]] EncodedElsewhere finish(const EncodingDone& done);

 private:
  const EncodingRecord& record_;
  const std::vector<EncoderShape>& shapes_;
  EncodedTexts texts_;
};

}  // namespace troupe::actors
