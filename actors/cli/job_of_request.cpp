#include "actors/cli/job_of_request.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "actors/cli/execution_class.h"
#include "actors/denoiser_evaluator.h"
#include "actors/job_fields.h"
#include "config/parse_value.h"
#include "kernels/core/hash.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

/// A network without classes reads no label.
std::optional<models::Condition> unconditional_of(const JobRequest& request) {
  const std::int64_t num_classes = request.source.info(DType::f32).num_classes;
  return request.guidance_scale > 1 && num_classes > 0
             ? std::optional(models::Condition(num_classes))
             : std::nullopt;
}

void add_init_latents(const JobRequest& request, JobRecord& job) {
  if (request.init_latents.empty()) {
    return;
  }
  for (std::int64_t row = 0; row < request.init_latents.dim(0); ++row) {
    job.init_latents.push_back(xxh3_64(request.init_latents.item(row).bytes()));
  }
  job.draws_latents = request.torch_latents == samplers::InitialLatents::drawn;
}

void add_classes(const JobRequest& request,
                 const std::vector<std::string>& classes, JobRecord& job) {
  for (std::size_t number = 0; number < classes.size(); ++number) {
    const JobDevice& by = request.device_of(static_cast<int>(number));
    job.execution_classes.push_back(
        {.name = classes[number],
         .device = by.device.kind,
         .dtype = by.compute,
         .isa = by.isa,
         .architecture = by.architecture,
         .batch_invariant = by.options.batch_invariant,
         .tf32 = by.options.tf32});
  }
}

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
    // A configuration is JSON itself.
    return text.starts_with('{') ? Json::parse(text)
                                 : Json(printable(text, kMostText));
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

}  // namespace

std::vector<std::string> execution_classes(const JobRequest& request,
                                           const config::Plan& plan,
                                           std::uint64_t weights_hash) {
  std::vector<std::string> classes;
  for (const JobDevice& device : request.devices) {
    if (device.execution_class == static_cast<int>(classes.size())) {
      classes.push_back(execution_class(
          execution_conditions(weights_hash, device, plan.method)));
    }
  }
  return classes;
}

JobRecord record_of(const JobRequest& request, const config::Plan& plan,
                    std::uint64_t weights_hash,
                    const std::vector<std::string>& classes) {
  JobRecord job;
  job.model = request.source.record(weights_hash);
  job.schedule = request.schedule.table();
  job.method = plan.method;
  if (const auto graph = plan.method.kind->graph) {
    job.method.graph = graph(plan.method);
  }
  job.cuts = balanced_cuts(request.source.info(DType::f32),
                           samplers::num_segments(plan.method));
  job.guidance_scale = request.guidance_scale;
  const auto extents = request.source.latent_shape().extents();
  job.latent_shape.assign(extents.begin(), extents.end());
  job.begin = request.samples.begin;
  job.end = request.samples.end;
  for (const std::int64_t id : request.classes) {
    job.conditions.push_back(models::Condition(id).hash());
  }
  if (const auto other = unconditional_of(request)) {
    job.unconditional = other->hash();
  }
  job.noise = request.noise;
  job.seed = request.seed;
  add_init_latents(request, job);
  add_classes(request, classes, job);
  return job;
}

JobValues values_of(const JobRequest& request) {
  JobValues values;
  const auto add = [&](models::Condition condition) {
    const std::uint64_t hash = condition.hash();
    values.conditions.emplace(hash, std::move(condition));
  };
  for (const std::int64_t id : request.classes) {
    add(models::Condition(id));
  }
  if (auto other = unconditional_of(request)) {
    add(*std::move(other));
  }
  values.init_latents = request.init_latents;
  return values;
}

std::string to_json(const JobRecord& job, int indent) {
  nlohmann::ordered_json document = {{"job", to_hex(hash_of(job))}};
  JsonFields fields(document);
  visit_fields(fields, job);
  return document.dump(indent, ' ', false,
                       nlohmann::json::error_handler_t::replace);
}

}  // namespace troupe::actors
