#include "actors/wire/message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>
#include <limits>

#include "actors/job_classes.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {

void refuse(const std::string& what) {
  throw Error(Errc::corrupt_file, "record", what,
              "it was damaged or cut on its way, or comes from another version "
              "of Troupe");
}

void check_class_name(const std::string& name) {
  if (!is_class_name(name)) {
    refuse("a class whose name is not 16 hexadecimal digits");
  }
}

void refuse_unknown_fields(const google::protobuf::Message& message) {
  const google::protobuf::Descriptor& kind = *message.GetDescriptor();
  const google::protobuf::Reflection& by = *message.GetReflection();
  if (!by.GetUnknownFields(message).empty()) {
    refuse(kind.name() +
           " has a field that this version of Troupe does not know: a newer "
           "one wrote it");
  }
  for (int i = 0; i < kind.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *kind.field(i);
    if (field.message_type() == nullptr) {
      continue;
    }
    if (!field.is_repeated()) {
      if (by.HasField(message, &field)) {
        refuse_unknown_fields(by.GetMessage(message, &field));
      }
      continue;
    }
    const int count = by.FieldSize(message, &field);
    for (int k = 0; k < count; ++k) {
      refuse_unknown_fields(by.GetRepeatedMessage(message, &field, k));
    }
  }
}

void parse(std::span<const std::byte> bytes, std::size_t most,
           google::protobuf::Message& message) {
  // A library of ours prints nothing: what is wrong is thrown.
  static const auto quiet = google::protobuf::SetLogHandler(nullptr);
  (void)quiet;
  if (bytes.size() > most) {
    refuse("got " + std::to_string(bytes.size()) + " bytes, expected at most " +
           std::to_string(most));
  }
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    refuse("its bytes are no " + message.GetDescriptor()->full_name());
  }
}

namespace {

using google::protobuf::internal::WireFormatLite;

/// Counts the fields of `size` bytes; false for bytes that are no record.
bool count_fields(const std::uint8_t* data, int size, int depth, int& count) {
  google::protobuf::io::CodedInputStream in(data, size);
  while (const std::uint32_t tag = in.ReadTag()) {
    ++count;
    const bool has_length = WireFormatLite::GetTagWireType(tag) ==
                            WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (!has_length) {
      if (!WireFormatLite::SkipField(&in, tag)) {
        return false;
      }
      continue;
    }
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length) ||
        length > static_cast<std::uint32_t>(size - in.CurrentPosition())) {
      return false;
    }
    // What is no message after all may look like one: then it is counted, too.
    if (depth > 1) {
      (void)count_fields(data + in.CurrentPosition(), static_cast<int>(length),
                         depth - 1, count);
    }
    (void)in.Skip(static_cast<int>(length));
  }
  return true;
}

}  // namespace

void limit_fields(std::span<const std::byte> bytes, int depth, int most) {
  int count = 0;
  const bool is_record =
      bytes.size() <= std::numeric_limits<int>::max() &&
      count_fields(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                   static_cast<int>(bytes.size()), depth, count);
  if (!is_record) {
    refuse("its bytes are cut or changed");
  }
  if (count > most) {
    refuse("has more than " + std::to_string(most) + " entries: got " +
           std::to_string(count));
  }
}

std::string bytes_of(const google::protobuf::Message& message,
                     std::size_t most) {
  const std::size_t size = message.ByteSizeLong();
  require(size <= most, Errc::invalid_argument, "message",
          "too large: got " + std::to_string(size) + " bytes");
  return message.SerializeAsString();
}

namespace {

/// Errors: Errc::corrupt_file unless so many bytes are those of the shape.
DType checked_dtype(const std::string& what, const std::string& dtype,
                    std::span<const std::int64_t> shape,
                    std::size_t num_bytes) {
  const std::optional<DType> named = value_named<DType>(dtype);
  if (!named) {
    refuse(what + ": got dtype " + in_quotes(dtype));
  }
  const DType kind = *named;
  // By division: a product of hostile extents may overflow.
  std::uint64_t left = num_bytes / size_of(kind);
  bool fits = num_bytes % size_of(kind) == 0 && !shape.empty() &&
              shape.size() <= Shape::kMaxRank;
  for (const std::int64_t extent : shape) {
    fits =
        fits && extent >= 1 && left % static_cast<std::uint64_t>(extent) == 0;
    left = fits ? left / static_cast<std::uint64_t>(extent) : left;
  }
  if (!fits || left != 1) {
    refuse(what + ": got " + std::to_string(num_bytes) +
           " bytes, expected those of its shape");
  }
  return kind;
}

}  // namespace

Tensor tensor_of(const std::string& what, const std::string& dtype,
                 std::span<const std::int64_t> shape, const std::string& data) {
  const DType kind = checked_dtype(what, dtype, shape, data.size());
  Tensor tensor{Shape(shape), kind};
  std::memcpy(tensor.bytes().data(), data.data(), data.size());
  return tensor;
}

Tensor view_of(const std::string& what, const std::string& dtype,
               std::span<const std::int64_t> shape,
               std::shared_ptr<std::byte> data, std::size_t num_bytes) {
  const DType kind = checked_dtype(what, dtype, shape, num_bytes);
  return {std::move(data), Shape(shape), kind};
}

}  // namespace troupe::actors::wire
