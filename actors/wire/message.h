#pragma once

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/enum_names.h"
#include "kernels/core/boundary.h"
#include "kernels/core/tensor.h"
#include "kernels/core/text.h"

// Functions that the codecs of this folder share. Not included elsewhere: it
// names protobuf.

namespace troupe::actors::wire {

/// Ends the reading of a record. Errors: Errc::corrupt_file, always.
[[noreturn]] void refuse(const std::string& what);

/// The value of an enum by its name; nothing: no value has that name.
template <config::NamedEnum Enum>
[[nodiscard]] std::optional<Enum> value_named(const std::string& name) {
  const std::vector<std::string>& names = config::names_of<Enum>();
  const auto found = std::ranges::find(names, name);
  return found == names.end()
             ? std::nullopt
             : std::optional(static_cast<Enum>(found - names.begin()));
}

/// Checks the name of an execution class, which is shown to people. Errors:
/// Errc::corrupt_file for another text.
void check_class_name(const std::string& name);

/// Errors: Errc::corrupt_file if the message, or one in it at any depth, has
/// fields that wire.proto lacks.
void refuse_unknown_fields(const google::protobuf::Message& message);

/// Parses at most `most` bytes. Errors: Errc::corrupt_file for more, and for
/// bytes that are no such message.
void parse(std::span<const std::byte> bytes, std::size_t most,
           google::protobuf::Message& message);

/// Looks at a record before anything is allocated for it. Errors:
/// Errc::corrupt_file if it has more than `most` fields, those of messages in
/// it included, `depth` − 1 levels down.
void limit_fields(std::span<const std::byte> bytes, int depth, int most);

/// Errors: Errc::invalid_argument above `most` bytes.
[[nodiscard]] std::string bytes_of(const google::protobuf::Message& message,
                                   std::size_t most);

/// Writes a tensor of the host into a message with the fields `dtype`, `shape`
/// and `data`.
template <typename Message>
void put_tensor(const Tensor& tensor, Message& to) {
  to.set_dtype(config::name_of(tensor.dtype()));
  for (const std::int64_t extent : tensor.shape().extents()) {
    to.add_shape(extent);
  }
  const auto data = tensor.bytes();
  to.set_data(data.data(), data.size());
}

/// A tensor from the three fields of a message. Errors: Errc::corrupt_file,
/// beginning with `what`, unless the data are those of the shape.
[[nodiscard]] Tensor tensor_of(const std::string& what,
                               const std::string& dtype,
                               std::span<const std::int64_t> shape,
                               const std::string& data);
/// The same; shares the elements.
[[nodiscard]] Tensor view_of(const std::string& what, const std::string& dtype,
                             std::span<const std::int64_t> shape,
                             std::shared_ptr<std::byte> data,
                             std::size_t num_bytes);
template <typename Message>
[[nodiscard]] Tensor tensor_of(const std::string& what, const Message& from) {
  const auto size = static_cast<std::size_t>(from.shape_size());
  return tensor_of(what, from.dtype(), {from.shape().data(), size},
                   from.data());
}

/// The same for a message with a fourth field, `name`. An empty tensor is
/// written as its name alone.
template <typename Message>
void put_named(const NamedTensor& named, Message& to) {
  to.set_name(named.name);
  if (!named.tensor.empty()) {
    put_tensor(named.tensor, to);
  }
}
template <typename Message>
[[nodiscard]] NamedTensor named_of(const Message& from) {
  const bool is_empty = from.shape().empty() && from.data().empty();
  return {from.name(),
          is_empty ? Tensor()
                   : tensor_of("tensor " + in_quotes(from.name()), from)};
}

}  // namespace troupe::actors::wire
