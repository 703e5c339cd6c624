#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kernels/core/key_check.h"

namespace troupe {

/// Walks a JSON text for a KeyCheck. `Sax` and `Json` are nlohmann::json_sax
/// and nlohmann::json: parameters, because this folder may not include them.
template <template <typename> class Sax, typename Json>
class KeyWalk final : public Sax<Json> {
 public:
  explicit KeyWalk(KeyCheck& check) : check_(check) {}

  bool start_object(std::size_t /*elements*/) override { return check_.open(); }
  bool start_array(std::size_t /*elements*/) override { return check_.open(); }
  bool end_object() override { return check_.close(); }
  bool end_array() override { return check_.close(); }
  bool key(typename Json::string_t& text) override { return check_.key(text); }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(typename Json::number_integer_t /*value*/) override {
    return true;
  }
  bool number_unsigned(typename Json::number_unsigned_t /*value*/) override {
    return true;
  }
  bool number_float(typename Json::number_float_t /*value*/,
                    const typename Json::string_t& /*text*/) override {
    return true;
  }
  bool string(typename Json::string_t& /*value*/) override { return true; }
  bool binary(typename Json::binary_t& /*value*/) override { return true; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const typename Json::exception& /*error*/) override {
    return false;  // the parser says what is wrong
  }

 private:
  KeyCheck& check_;
};

/// Checks the keys of a JSON text. Returns whether the text is well-formed.
/// (The library's own callback would visit all siblings at the end of each
/// object.)
/// Errors: those of KeyCheck.
template <template <typename> class Sax, typename Json>
bool check_keys(std::string_view text, std::string_view place, Errc code) {
  KeyCheck check(place, code);
  KeyWalk<Sax, Json> walk(check);
  const bool is_whole = Json::sax_parse(text.begin(), text.end(), &walk);
  if (check.needs_name()) {
    KeyCheck named = check.named();
    KeyWalk<Sax, Json> again(named);
    (void)Json::sax_parse(text.begin(), text.end(), &again);
  }
  return is_whole;
}

}  // namespace troupe
