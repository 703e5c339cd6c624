// Reads spiece.model: a protobuf with pieces, and how text is normalised.
#include <cstring>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/text/corrupt.h"
#include "models/text/tokenizer_files.h"
#include "models/text/unicode.h"

namespace troupe::models {
namespace {

/// A field of a message. Source: protobuf's encoding, "Message Structure".
struct Field {
  std::uint64_t number = 0;
  unsigned type = 0;        ///< of the wire
  std::uint64_t value = 0;  ///< of a number
  std::string_view bytes;   ///< of text or a message
};

constexpr unsigned kVarint = 0;
constexpr unsigned kFixed64 = 1;
constexpr unsigned kBytes = 2;
constexpr unsigned kFixed32 = 5;

/// Reads the fields of a message one after the other.
class Message {
 public:
  Message(std::string_view bytes, std::string_view place)
      : rest_(bytes), place_(place) {}

  /// False: there is no other.
  bool next(Field& field) {
    if (rest_.empty()) {
      return false;
    }
    const std::uint64_t tag = varint();
    field = {tag >> 3U, static_cast<unsigned>(tag & 7U), 0, {}};
    switch (field.type) {
      case kVarint:
        field.value = varint();
        return true;
      case kFixed64:
        field.value = number(taken(8));
        return true;
      case kFixed32:
        field.value = number(taken(4));
        return true;
      case kBytes:
        field.bytes = taken(varint());
        return true;
      default:
        corrupt(place_,
                "a field of unknown type " + std::to_string(field.type));
    }
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(taken(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    corrupt(place_, "a number of more than ten bytes");
  }
  std::string_view taken(std::uint64_t size) {
    if (size > rest_.size()) {
      corrupt(place_, "ends inside a field");
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  static std::uint64_t number(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      value = value << 8U | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  }

  std::string_view rest_;
  std::string_view place_;
};

// Types of pieces that are tokens by themselves.
constexpr std::uint64_t kControl = 3;
constexpr std::uint64_t kUserDefined = 4;

void read_piece(std::string_view bytes, std::string_view place,
                Vocabulary& to) {
  Message message(bytes, place);
  std::string_view piece;
  float score = 0.0F;
  std::uint64_t type = 1;
  for (Field field; message.next(field);) {
    if (field.number == 1 && field.type == kBytes) {
      piece = field.bytes;
    } else if (field.number == 2 && field.type == kFixed32) {
      const auto bits = static_cast<std::uint32_t>(field.value);
      std::memcpy(&score, &bits, sizeof(score));
    } else if (field.number == 3 && field.type == kVarint) {
      type = field.value;
    }
  }
  check_utf8(piece, place, Errc::corrupt_file);
  to.pieces.add(piece, place);
  to.scores.push_back(static_cast<double>(score));
  if (type == kControl || type == kUserDefined) {
    const auto id = static_cast<std::int64_t>(to.pieces.size()) - 1;
    to.added.insert_or_assign(
        id, AddedToken{std::string(piece), false, false, false});
  }
}

void read_trainer(std::string_view bytes, std::string_view place,
                  Vocabulary& to) {
  constexpr std::uint64_t kUnigram = 1;
  Message message(bytes, place);
  for (Field field; message.next(field);) {
    if (field.number == 3 && field.type == kVarint) {
      require(field.value == kUnigram, Errc::unsupported, place,
              "a SentencePiece model of type " + std::to_string(field.value) +
                  ", expected 1 (unigram)",
              "this is not the tokenizer of T5 or UMT5");
    } else if (field.number == 40 && field.type == kVarint) {
      to.unknown_id = static_cast<std::int64_t>(field.value);
    }
  }
}

}  // namespace

Vocabulary read_spiece_model(std::string_view bytes, std::string_view place) {
  Vocabulary vocabulary;
  vocabulary.unknown_id = 0;  // where the file does not say
  Message message(bytes, place);
  for (Field field; message.next(field);) {
    if (field.type != kBytes) {
      continue;
    }
    if (field.number == 1) {
      read_piece(field.bytes, place, vocabulary);
    } else if (field.number == 2) {
      read_trainer(field.bytes, place, vocabulary);
    } else if (field.number == 3) {
      Message normalizer(field.bytes, place);
      for (Field part; normalizer.next(part);) {
        if (part.number == 2 && part.type == kBytes && !part.bytes.empty()) {
          vocabulary.charsmap = Charsmap(part.bytes, place);
        }
      }
    }
  }
  if (vocabulary.pieces.size() == 0) {
    corrupt(place, "no pieces");
  }
  return vocabulary;
}

}  // namespace troupe::models
