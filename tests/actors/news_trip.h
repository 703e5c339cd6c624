#pragma once

#include <span>
#include <string>
#include <variant>

#include "actors/wire/news_codec.h"

namespace troupe::actors {

inline std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Through the codec.
template <typename Message>
Message there_and_back(const Message& message) {
  return std::get<Message>(
      wire::decode_news(bytes_of(wire::encode(wire::News(message)))));
}

}  // namespace troupe::actors
