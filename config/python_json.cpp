#include "config/python_json.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "kernels/core/text.h"

namespace troupe::config {
namespace {

std::size_t bare_word_length(std::string_view text) {
  for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
    if (text.starts_with(word)) {
      return word.size();
    }
  }
  return 0;
}

constexpr std::size_t kDeepest = 32;

/// Throws at the first key that its object has had.
class ObjectCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ObjectCheck(std::string_view place, Errc code) : place_(place), code_(code) {}

  bool start_object(std::size_t /*elements*/) override { return enter(); }
  bool start_array(std::size_t /*elements*/) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& text) override {
    if (!keys_.back().insert(text).second) {
      throw Error(code_, place_, "duplicate key " + in_quotes(text),
                  "correct this file");
    }
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/,
                    const string_t& /*text*/) override {
    return true;
  }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool enter() {
    require(keys_.size() < kDeepest, code_, place_, "nested too deeply",
            "correct this file");
    keys_.emplace_back();
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::string_view place_;
  Errc code_;
  std::vector<std::unordered_set<std::string>> keys_;
};

}  // namespace

void check_objects(std::string_view text, std::string_view place, Errc code) {
  ObjectCheck check(place, code);
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &check);
}

std::string without_bare_words(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      in_string = !in_string;
    } else if (in_string && c == '\\' && i + 1 < text.size()) {
      clean += c;
      ++i;
    } else if (!in_string) {
      if (const std::size_t length = bare_word_length(text.substr(i))) {
        clean.append("\"").append(text.substr(i, length)).append("\"");
        i += length - 1;
        continue;
      }
    }
    clean += text[i];
  }
  return clean;
}

}  // namespace troupe::config
