#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::models {

/// Reads the JSON of a safetensors header from the first character to the last.
/// It knows objects, strings and lists of whole numbers, nothing else. Strings
/// are decoded inside the text itself, so nothing is allocated and names are
/// views of the text. (A general parser keeps a copy of every token and of
/// every key.)
/// Errors: Errc::corrupt_file at `place`, naming the subject.
/// Source: RFC 8259, with RFC 3629 for what is UTF-8.
class HeaderText {
 public:
  struct Name {
    std::uint32_t begin = 0;  ///< position in the text
    std::string_view text;
  };

  /// `text` is at most 4 GiB and outlives this.
  HeaderText(std::string& text, std::string_view place)
      : text_(text), place_(place) {}

  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] std::size_t count(char c) const {
    return static_cast<std::size_t>(std::count(text_.begin(), text_.end(), c));
  }
  /// Position of the next character.
  [[nodiscard]] std::size_t position() const { return at_; }

  /// The tensor that error messages name; empty: none.
  void set_subject(std::string_view tensor) { subject_ = tensor; }
  [[noreturn]] void fail(const std::string& problem) const;

  /// Reads the object that begins here. Calls fn(Name) after each key; fn must
  /// read the value.
  template <typename Fn>
  void each_member(const Fn& fn) {
    open('{');
    for (bool more = !closes('}'); more; more = next('}')) {
      const Name name = string();
      expect(':');
      fn(name);
    }
  }
  /// Calls fn(number) for every item of the list that begins here.
  template <typename Fn>
  void each_number(const Fn& fn) {
    open('[');
    for (bool more = !closes(']'); more; more = next(']')) {
      fn(number());
    }
  }
  [[nodiscard]] Name string();
  /// Fails unless only white space follows.
  void expect_end();

 private:
  void skip_space();
  /// The next character after white space, or '\0' at the end.
  char peek();
  void open(char bracket);
  bool closes(char bracket);
  /// After an item: true for a comma, false for `bracket`.
  bool next(char bracket);
  void expect(char c);
  std::uint64_t number();
  std::size_t decode_escape(std::size_t to);
  char32_t hex4();
  /// Fails because the next character does not belong here.
  [[noreturn]] void fail_unexpected();
  [[noreturn]] void fail_syntax() const;

  std::string& text_;
  std::string_view place_;
  std::string_view subject_;
  std::size_t at_ = 0;
};

}  // namespace troupe::models
