#include "models/files/config_fields.h"

#include <algorithm>
#include <span>
#include <sstream>

#include "kernels/core/error.h"
#include "kernels/core/hash.h"

namespace troupe::models {

const char* FieldReader::name_of(const ConfigKey& key) const {
  const bool has_other = key.other_name != nullptr && json_.has(key.other_name);
  return has_other ? key.other_name : key.name;
}

void FieldReader::operator()(const ConfigKey& key, std::int64_t& field) const {
  field = json_.integer(name_of(key), field, key.least, key.most);
}

void FieldReader::operator()(const ConfigKey& key, bool& field) const {
  field = json_.boolean(name_of(key), field);
}

void FieldReader::operator()(const ConfigKey& key, float& field) const {
  field = static_cast<float>(json_.number(name_of(key), field));
  check_sign(key, field);
}

void FieldReader::operator()(const ConfigKey& key, double& field) const {
  field = json_.number(name_of(key), field);
  check_sign(key, field);
}

void FieldReader::check_sign(const ConfigKey& key, double field) const {
  require(
      field >= 0 || !key.not_negative, Errc::corrupt_file, json_.place(),
      std::string(name_of(key)) + ": got a negative number, expected 0 or more",
      "correct this file");
}

void FieldReader::operator()(const ConfigKey& key,
                             std::vector<std::int64_t>& field) const {
  field = json_.integers(name_of(key), std::move(field), key.least, key.most);
}

void FieldReader::operator()(const ConfigKey& key,
                             std::vector<double>& field) const {
  field = json_.numbers(name_of(key));
}

void ValueCheck::operator()(bool is_right, std::string_view key,
                            std::string_view got,
                            std::string_view expected) const {
  if (!is_right) {
    std::ostringstream message;
    message << key << ": got " << got << ", expected " << expected;
    throw Error(Errc::unsupported, json_.place(), message.str(), hint_);
  }
}

std::uint64_t FieldHash::digest() const {
  std::vector<std::uint64_t> words = words_;
  const auto is_set = [](std::uint64_t word) { return word != 0; };
  if (std::ranges::any_of(newer_, is_set)) {
    words.insert(words.end(), newer_.begin(), newer_.end());
  }
  return xxh3_64(std::as_bytes(std::span(words)));
}

FieldKeys::FieldKeys(std::string_view others) {
  std::istringstream words{std::string(others)};
  for (std::string word; words >> word;) {
    names_.insert(word);
  }
}

std::string FieldKeys::joined() const {
  std::string all;
  for (const std::string& name : names_) {
    all += (all.empty() ? "" : " ") + name;
  }
  return all;
}

}  // namespace troupe::models
