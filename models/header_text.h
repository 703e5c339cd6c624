#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::models {

/// The JSON of a safetensors header, read from the first character to the last:
/// objects, strings and lists of whole numbers, nothing else. Strings are
/// decoded where they stand, so nothing is allocated; a name stays where the
/// text is. (A general parser keeps a copy of every token and of every key.)
/// Errors: Errc::corrupt_file at `place`, with the subject.
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
  /// Of the next character.
  [[nodiscard]] std::size_t position() const { return at_; }

  /// What messages name: a tensor, or nothing.
  void set_subject(std::string_view tensor) { subject_ = tensor; }
  [[noreturn]] void fail(const std::string& problem) const;

  /// Calls fn(Name) behind every "name": of the object that begins here; fn
  /// reads the value.
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
  /// Nothing but white space may follow.
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
  /// For something else than what belongs here.
  [[noreturn]] void fail_unexpected();
  [[noreturn]] void fail_syntax() const;

  std::string& text_;
  std::string_view place_;
  std::string_view subject_;
  std::size_t at_ = 0;
};

}  // namespace troupe::models
