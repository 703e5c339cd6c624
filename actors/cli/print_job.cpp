#include "actors/cli/print_job.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "actors/cli/job_of_request.h"
#include "actors/cli/job_runner.h"
#include "actors/job_fields.h"
#include "config/parse_value.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// Puts fields into a JSON object.
class JsonFields {
 public:
  explicit JsonFields(nlohmann::ordered_json& to) : to_(to) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    to_[key] = json_of(value);
  }
  void operator()(const char* key, std::uint64_t value) {
    const std::string_view name = key;
    const bool is_hash = name == "weights_xxh3" || name == "unconditional";
    to_[key] = is_hash ? Json(to_hex(value)) : Json(value);
  }
  /// A configuration is JSON itself.
  void operator()(const char* key, const std::string& text) {
    const bool is_json =
        std::string_view(key).ends_with("_config") && !text.empty();
    to_[key] = is_json ? Json::parse(text) : json_of(text);
  }
  /// Hashes all of them.
  void operator()(const char* key, const std::vector<std::uint64_t>& values) {
    to_[key] = Json::array();
    for (const std::uint64_t value : values) {
      to_[key].push_back(to_hex(value));
    }
  }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& value) {
    if (value) {
      (*this)(key, *value);
    }
  }
  template <typename T>
  void operator()(const char* key, const std::shared_ptr<T>& value) {
    if (value) {
      (*this)(key, *value);
    }
  }

 private:
  using Json = nlohmann::ordered_json;

  static Json json_of(double value) {
    return std::isfinite(value) ? Json(value) : Json(config::to_text(value));
  }
  static Json json_of(float value) { return json_of(double{value}); }
  static Json json_of(const std::string& text) {
    return printable(text, kMostText);
  }
  template <std::integral T>
  static Json json_of(T value) {
    return value;
  }
  template <config::NamedEnum T>
  static Json json_of(T value) {
    return config::name_of(value);
  }
  template <NamedRow T>
  static Json json_of(const T& row) {
    return row->name;
  }
  template <HasFields T>
  static Json json_of(const T& record) {
    Json object = Json::object();
    JsonFields fields(object);
    visit_fields(fields, record);
    return object;
  }
  template <typename T>
  static Json json_of(const std::vector<T>& values) {
    Json list = Json::array();
    for (const T& value : values) {
      list.push_back(json_of(value));
    }
    return list;
  }

  static constexpr std::size_t kMostText = 4096;
  Json& to_;
};

void add(const JobRecord& job, nlohmann::ordered_json& document) {
  document["job"] = to_hex(hash_of(job));
  JsonFields fields(document);
  visit_fields(fields, job);
}

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;

}  // namespace

int print_job(Invocation& invocation, const JobRequest& request,
              const RequiredClass& required) {
  const std::uint64_t weights =
      read_weights_hash(request.source, *invocation.stop);
  required.check(request, weights);
  const JobRecord job =
      record_of(request, request.plan, weights,
                execution_classes(request, request.plan, weights));
  check(job, values_of(request), request.source.table());
  invocation.summary.status = "planned";
  invocation.take_last_word();
  const bool is_json = invocation.config.json;
  nlohmann::ordered_json document;
  if (is_json) {
    document = envelope(invocation.summary);
  }
  add(job, document);
  fmt::print("{}\n", document.dump(is_json ? -1 : 2, ' ', false, kReplace));
  return 0;
}

}  // namespace troupe::actors
