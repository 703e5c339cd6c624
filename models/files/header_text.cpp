#include "models/files/header_text.h"

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Writes a code point and returns its size. The escape it stands for is at
/// least as long.
std::size_t encode(char32_t code, char* to) {
  const auto tail = [&](unsigned shift) {
    return static_cast<char>(0x80U | ((code >> shift) & 0x3fU));
  };
  if (code < 0x80) {
    to[0] = static_cast<char>(code);
    return 1;
  }
  if (code < 0x800) {
    to[0] = static_cast<char>(0xc0U | (code >> 6U));
    to[1] = tail(0);
    return 2;
  }
  if (code < 0x10000) {
    to[0] = static_cast<char>(0xe0U | (code >> 12U));
    to[1] = tail(6);
    to[2] = tail(0);
    return 3;
  }
  to[0] = static_cast<char>(0xf0U | (code >> 18U));
  to[1] = tail(12);
  to[2] = tail(6);
  to[3] = tail(0);
  return 4;
}

}  // namespace

void HeaderText::fail(const std::string& problem) const {
  throw Error(
      Errc::corrupt_file, place_,
      "header: " +
          (subject_.empty() ? "" : "tensor " + in_quotes(subject_) + ": ") +
          problem,
      "the file is damaged: download it again");
}

void HeaderText::fail_syntax() const {
  fail("not valid JSON at byte " + std::to_string(at_));
}

void HeaderText::fail_unexpected() {
  const char c = peek();
  if (is_digit(c)) {
    fail("a number where none belongs");
  }
  switch (c) {
    case '{':
      fail("an object where none belongs");
    case '[':
      fail("an array where none belongs");
    case '"':
      fail("a string where none belongs");
    case '-':
      fail("a negative number");
    case 't':
    case 'f':
      fail("a boolean");
    case 'n':
      fail("a null");
    default:
      fail_syntax();
  }
}

void HeaderText::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                text_[at_] == '\n' || text_[at_] == '\r')) {
    ++at_;
  }
}

char HeaderText::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void HeaderText::open(char bracket) {
  if (peek() != bracket) {
    fail_unexpected();
  }
  ++at_;
}

bool HeaderText::closes(char bracket) {
  const bool is_here = peek() == bracket;
  at_ += is_here ? 1 : 0;
  return is_here;
}

bool HeaderText::next(char bracket) {
  if (closes(bracket)) {
    return false;
  }
  expect(',');
  return true;
}

void HeaderText::expect(char c) {
  if (peek() != c) {
    fail_syntax();
  }
  ++at_;
}

void HeaderText::expect_end() {
  skip_space();
  if (at_ != text_.size()) {
    fail_syntax();
  }
}

HeaderText::Name HeaderText::string() {
  if (peek() != '"') {
    fail_unexpected();
  }
  ++at_;
  const std::size_t begin = at_;
  std::size_t to = begin;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\') {
      ++at_;
      to += decode_escape(to);
      continue;
    }
    const std::string_view rest = std::string_view(text_).substr(at_);
    const Utf8Character character = first_character(rest);
    if (character.size == 0 || character.code < 0x20) {
      fail_syntax();
    }
    for (std::size_t i = 0; i < character.size; ++i) {
      text_[to++] = text_[at_++];
    }
  }
  if (at_ == text_.size()) {
    fail_syntax();
  }
  ++at_;
  return {static_cast<std::uint32_t>(begin),
          std::string_view(text_).substr(begin, to - begin)};
}

char32_t HeaderText::hex4() {
  char32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      fail_syntax();
    }
    code = 16 * code + static_cast<char32_t>(digit);
    ++at_;
  }
  return code;
}

/// Behind a backslash: writes the escaped character at `to`.
std::size_t HeaderText::decode_escape(std::size_t to) {
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (const auto known = kLetters.find(c); known != std::string_view::npos) {
    ++at_;
    text_[to] = kMeanings[known];
    return 1;
  }
  if (c != 'u') {
    fail_syntax();
  }
  ++at_;
  char32_t code = hex4();
  if (code >= 0xdc00 && code < 0xe000) {
    fail_syntax();
  }
  if (code >= 0xd800 && code < 0xdc00) {
    if (std::string_view(text_).substr(at_, 2) != "\\u") {
      fail_syntax();
    }
    at_ += 2;
    const char32_t low = hex4();
    if (low < 0xdc00 || low >= 0xe000) {
      fail_syntax();
    }
    code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
  }
  return encode(code, text_.data() + to);
}

std::uint64_t HeaderText::number() {
  const char first = peek();
  if (!is_digit(first)) {
    fail_unexpected();
  }
  const std::size_t begin = at_;
  std::uint64_t value = 0;
  bool fits = true;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
    fits = fits && !__builtin_mul_overflow(value, 10, &value) &&
           !__builtin_add_overflow(value, digit, &value);
  }
  if (first == '0' && at_ - begin > 1) {
    fail_syntax();
  }
  const char after = at_ < text_.size() ? text_[at_] : '\0';
  if (!fits || after == '.' || after == 'e' || after == 'E') {
    fail("a number that is not a whole one below 2^64: " +
         printable(std::string_view(text_).substr(begin, at_ + 1 - begin)));
  }
  return value;
}

}  // namespace troupe::models
