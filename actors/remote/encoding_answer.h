#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "actors/encoding_record.h"
#include "actors/session.h"
#include "net/link.h"

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

  /// The most bytes of the text's value, which is to be fetched (TextKey).
  /// Errors: Errc::corrupt_file for a text that is not in the record, or was
  /// named before.
  [[nodiscard]] std::size_t name(const TextEncoded& text);
  /// A named text has come. Errors: Errc::corrupt_file if it has not, has
  /// vectors of another shape, or a NaN or an infinity.
  void take(std::uint64_t text, const net::Fetched& fetched);
  /// All texts are named.
  void end(const EncodingDone& done) { done_ = done; }
  /// All that came, once: after the end and the last text. Until then nothing.
  /// Errors: Errc::corrupt_file if something is missing.
  [[nodiscard]] std::optional<EncodedElsewhere> finish();

 private:
  const EncodingRecord& record_;
  const std::vector<EncoderShape>& shapes_;
  EncodedTexts texts_;
  std::vector<bool> is_named_;  ///< of each text
  int num_to_come_ = 0;         ///< of those that are named
  std::optional<EncodingDone> done_;
};

}  // namespace troupe::actors
