#pragma once

#include <fmt/format.h>

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "actors/wire/record_codec.h"

// The text of actors/wire/wire.proto, made from the lists of fields.

namespace troupe::actors {

/// "GrantResult".
template <typename T>
std::string type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name = name.substr(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return std::string(name.substr(name.rfind(':') + 1));
}

/// "grant_result".
inline std::string in_snake_case(const std::string& name) {
  std::string snake;
  for (const char c : name) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0 && !snake.empty()) {
      snake += '_';
    }
    snake += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return snake;
}

class ProtoText {
 public:
  /// Adds a message. Messages that are the types of its fields come before it,
  /// unless the text has them.
  template <typename T>
  void add() {
    if (!known_.insert(type_name<T>()).second) {
      return;
    }
    std::string outer =
        std::exchange(fields_, "\nmessage " + type_name<T>() + " {\n");
    const int before = std::exchange(number_, 0);
    T record{};
    visit_fields(*this, record);
    text_ += fields_ + "}\n";
    fields_ = std::move(outer);
    number_ = before;
  }
  /// A message that has one of several fields.
  template <typename... Ts>
  void add_one_of(const std::string& name, std::variant<Ts...> /*all*/) {
    (add<Ts>(), ...);
    text_ += "\nmessage " + name + " {\n  oneof one_of {\n";
    int number = 0;
    ((text_ += fmt::format("    {} {} = {};\n", type_name<Ts>(),
                           in_snake_case(type_name<Ts>()), ++number)),
     ...);
    text_ += "  }\n}\n";
  }
  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    const std::string type = type_of(key, value);
    fields_ += fmt::format("  {} {} = {};", type, key.name, ++number_);
    if (key.most != ~std::uint64_t{0}) {
      fields_ += fmt::format("  // at most {}", key.most);
    }
    fields_ += "\n";
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  using Key = const FieldKey&;

  std::string type_of(Key, bool) { return "bool"; }
  std::string type_of(Key, int) { return "int32"; }
  std::string type_of(Key, std::int64_t) { return "int64"; }
  std::string type_of(Key, std::uint32_t) { return "uint32"; }
  std::string type_of(Key key, std::uint64_t) {
    return key.is_hash ? "fixed64" : "uint64";
  }
  std::string type_of(Key, double) { return "double"; }
  std::string type_of(Key, float) { return "float"; }
  std::string type_of(Key, const std::string&) { return "bytes"; }
  template <wire::NumberedEnum T>
  std::string type_of(Key, T) {
    return "uint32";
  }
  template <typename T>
  requires(config::NamedEnum<T> || NamedRow<T> ||
           std::same_as<T, Errc>) std::string type_of(Key, const T&) {
    return "string";
  }
  std::string type_of(Key, Duration) { return "sint64"; }
  std::string type_of(Key, TimePoint) { return "sint64"; }
  std::string type_of(Key, const Device&) { return "optional int32"; }
  template <HasFields T>
  std::string type_of(Key, const T&) {
    return message<T>();
  }
  /// A message that is named as its field.
  template <typename... Ts>
  std::string type_of(Key key, const std::variant<Ts...>& all) {
    std::string name = key.name;
    name.at(0) = static_cast<char>(std::toupper(key.name[0]));
    add_one_of(name, all);
    return name;
  }
  template <typename T>
  std::string type_of(Key key, const std::optional<T>&) {
    return "optional " + type_of(key, T{});
  }
  template <typename T>
  std::string type_of(Key key, const std::shared_ptr<const T>&) {
    return "optional " + type_of(key, T{});
  }
  std::string type_of(Key, const std::vector<samplers::NoiseLevel>&) {
    return "repeated double";
  }
  template <typename T>
  std::string type_of(Key key, const std::vector<T>&) {
    return "repeated " + type_of(key, T{});
  }
  template <typename T, std::size_t N>
  std::string type_of(Key key, const InlineVector<T, N>&) {
    return "repeated " + type_of(key, T{});
  }
  std::string type_of(Key, samplers::Op) { return "uint32"; }
  template <typename T>
  std::string message() {
    add<T>();
    return type_name<T>();
  }

  std::set<std::string> known_;
  std::string text_;
  std::string fields_;
  int number_ = 0;
};

}  // namespace troupe::actors
