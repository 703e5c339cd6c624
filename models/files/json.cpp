#include "models/files/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/core/error.h"
#include "kernels/core/key_walk.h"
#include "kernels/core/system/atomic_file.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

constexpr std::size_t kLargestFile = std::size_t{16} << 20U;
constexpr double kLargestNumber = 1e30;

[[noreturn]] void fail(const std::string& place, std::string_view key,
                       const std::string& got, const std::string& expected) {
  throw Error(
      Errc::corrupt_file, place,
      "key " + in_quotes(key) + ": got " + got + ", expected " + expected,
      "correct this file");
}

std::string shown(const nlohmann::json& value) {
  return printable(
      value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::int64_t bounded(const std::string& place, std::string_view key,
                     const nlohmann::json& value, std::int64_t least,
                     std::int64_t most) {
  const std::string expected = "a whole number from " + std::to_string(least) +
                               " to " + std::to_string(most);
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits || value.get<std::int64_t>() < least ||
      value.get<std::int64_t>() > most) {
    fail(place, key, shown(value), expected);
  }
  return value.get<std::int64_t>();
}

double finite(const std::string& place, std::string_view key,
              const nlohmann::json& value) {
  if (!value.is_number() ||
      !(std::abs(value.get<double>()) <= kLargestNumber)) {
    fail(place, key, shown(value), "a finite number");
  }
  return value.get<double>();
}

}  // namespace

struct Json::Document {
  std::string place;
  std::string text;
  nlohmann::json root = nlohmann::json::object();

  [[nodiscard]] const nlohmann::json* find(std::string_view key) const {
    const auto at = root.find(std::string(key));
    return at == root.end() || at->is_null() ? nullptr : &*at;
  }
};

Json::Json() : document_(std::make_shared<Document>()) {}

Json Json::read_file(const std::filesystem::path& path) {
  return parse(troupe::read_file(path, kLargestFile), path.string());
}

Json Json::parse(std::string_view text, std::string_view place) {
  auto document = std::make_shared<Document>();
  document->place = place;
  document->text = text;
  (void)check_keys<nlohmann::json_sax, nlohmann::json>(text, place,
                                                       Errc::corrupt_file);
  try {
    document->root = nlohmann::json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::out_of_range& error) {
    throw Error(Errc::corrupt_file, place,
                "a number is too large: " + printable(error.what()),
                "correct this file");
  } catch (const nlohmann::json::exception& error) {
    throw Error(Errc::corrupt_file, place,
                "not valid JSON: " + printable(error.what()),
                "correct this file");
  }
  require(document->root.is_object(), Errc::corrupt_file, place,
          "expected a JSON object", "correct this file");
  Json result;
  result.document_ = std::move(document);
  return result;
}

const std::string& Json::place() const noexcept { return document_->place; }
const std::string& Json::text() const noexcept { return document_->text; }
std::string Json::canonical() const { return document_->root.dump(); }

Json Json::without(std::string_view key) const {
  auto document = std::make_shared<Document>(*document_);
  document->root.erase(std::string(key));
  Json result;
  result.document_ = std::move(document);
  return result;
}

bool Json::has(std::string_view key) const {
  return document_->find(key) != nullptr;
}

bool Json::is_list(std::string_view key) const {
  const auto* value = document_->find(key);
  return value != nullptr && value->is_array();
}

std::string Json::written(std::string_view key) const {
  const auto* value = document_->find(key);
  return value != nullptr ? shown(*value) : "null";
}

std::int64_t Json::integer(std::string_view key, std::int64_t missing,
                           std::int64_t least, std::int64_t most) const {
  const auto* value = document_->find(key);
  return value ? bounded(place(), key, *value, least, most) : missing;
}

double Json::number(std::string_view key, double missing) const {
  const auto* value = document_->find(key);
  return value ? finite(place(), key, *value) : missing;
}

bool Json::boolean(std::string_view key, bool missing) const {
  const auto* value = document_->find(key);
  if (value && !value->is_boolean()) {
    fail(place(), key, shown(*value), "true or false");
  }
  return value ? value->get<bool>() : missing;
}

std::string Json::string(std::string_view key, std::string_view missing) const {
  const auto* value = document_->find(key);
  if (value && !value->is_string()) {
    fail(place(), key, shown(*value), "a string");
  }
  return value ? value->get<std::string>() : std::string(missing);
}

std::vector<std::int64_t> Json::integers(std::string_view key,
                                         std::vector<std::int64_t> missing,
                                         std::int64_t least,
                                         std::int64_t most) const {
  const auto* value = document_->find(key);
  if (!value) {
    return missing;
  }
  if (!value->is_array()) {
    fail(place(), key, shown(*value), "a list of whole numbers");
  }
  std::vector<std::int64_t> result;
  for (const auto& item : *value) {
    result.push_back(bounded(place(), key, item, least, most));
  }
  return result;
}

std::vector<double> Json::numbers(std::string_view key) const {
  std::vector<double> result;
  if (const auto* value = document_->find(key)) {
    if (!value->is_array()) {
      fail(place(), key, shown(*value), "a list of numbers");
    }
    for (const auto& item : *value) {
      result.push_back(finite(place(), key, item));
    }
  }
  return result;
}

std::vector<std::string> Json::string_list(std::string_view key) const {
  std::vector<std::string> result;
  if (const auto* value = document_->find(key)) {
    if (!value->is_array()) {
      fail(place(), key, shown(*value), "a list of strings");
    }
    for (const auto& item : *value) {
      if (!item.is_string()) {
        fail(place(), key, shown(item), "a string");
      }
      result.push_back(item.get<std::string>());
    }
  }
  return result;
}

std::map<std::string, std::string> Json::strings(std::string_view key) const {
  std::map<std::string, std::string> result;
  if (const auto* value = document_->find(key)) {
    if (!value->is_object()) {
      fail(place(), key, shown(*value), "an object");
    }
    for (const auto& [name, item] : value->items()) {
      if (!item.is_string()) {
        fail(place(), key, shown(item), "a string");
      }
      result.emplace(name, item.get<std::string>());
    }
  }
  return result;
}

std::string Json::component_class(std::string_view key) const {
  const auto* value = document_->find(key);
  if (!value) {
    return {};
  }
  const bool is_pair = value->is_array() && value->size() == 2;
  if (is_pair && (*value)[0].is_null() && (*value)[1].is_null()) {
    return {};
  }
  if (!is_pair || !(*value)[0].is_string() || !(*value)[1].is_string()) {
    fail(place(), key, shown(*value), "a library and a class");
  }
  return (*value)[1].get<std::string>();
}

std::vector<std::string> Json::keys() const {
  std::vector<std::string> result;
  for (const auto& item : document_->root.items()) {
    result.push_back(item.key());
  }
  return result;
}

}  // namespace troupe::models
