#pragma once

#include <google/protobuf/message.h>

#include <cstddef>
#include <span>
#include <string>

// What the codecs of this folder share. Not included elsewhere: it names
// protobuf.

namespace troupe::actors::wire {

/// Ends the reading of a record. Errors: Errc::corrupt_file, always.
[[noreturn]] void refuse(const std::string& what);

/// Errors: Errc::corrupt_file if the message has fields that wire.proto lacks.
void refuse_unknown_fields(const google::protobuf::Message& message);

/// Parses at most `most` bytes. Errors: Errc::corrupt_file for more, and for
/// bytes that are no such message.
void parse(std::span<const std::byte> bytes, std::size_t most,
           google::protobuf::Message& message);

}  // namespace troupe::actors::wire
