#pragma once

#include <limits>
#include <random>
#include <string>
#include <variant>

#include "actors/message_fields.h"
#include "actors/wire/record_codec.h"
#include "kernels/core/system/exit_codes.h"

// Records for tests: random records for the codec, and small records that can
// run.

namespace troupe::actors {

/// Puts a random value into every field, whatever it means: infinities, NaNs
/// and numbers of both ends among them, as far as the list allows them.
class RandomFields {
 public:
  /// `is_message`: no number of type int is below 0.
  explicit RandomFields(std::uint64_t seed, bool is_message = false)
      : draw_(seed), is_message_(is_message) {}

  template <typename T>
  void operator()(const FieldKey& key, T& value) {
    most_ = key.most;
    fill(value);
  }

 private:
  std::uint64_t below(std::uint64_t count) { return draw_() % count; }

  void fill(bool& value) { value = below(2) == 1; }
  template <std::integral T>
  void fill(T& value) {
    constexpr T kEnds[] = {0, 1, std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::min()};
    value = below(3) == 0 ? kEnds[below(4)] : static_cast<T>(draw_());
    if (std::same_as<T, int> && is_message_ && value < 0) {
      value = -(value + 1);
    }
    if (most_ != ~std::uint64_t{0} &&
        static_cast<std::uint64_t>(value) > most_) {
      value = static_cast<T>(most_);
    }
  }
  void fill(double& value) {
    constexpr double kEnds[] = {-0.0, std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::denorm_min()};
    value = below(3) == 0 ? kEnds[below(5)] : std::bit_cast<double>(draw_());
  }
  void fill(float& value) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(draw_()));
  }
  void fill(std::string& text) {
    text.resize(below(12));
    for (char& c : text) {
      c = static_cast<char>('a' + below(26));
    }
  }
  void fill(Errc& code) {
    code = all_error_codes()[below(all_error_codes().size())];
  }
  template <wire::NumberedEnum T>
  void fill(T& value) {
    value = static_cast<T>(
        below(static_cast<std::uint64_t>(wire::last_of(T{})) + 1));
  }
  void fill(samplers::Op& op) {
    op = samplers::Op(samplers::kOpTable[below(samplers::kOpTable.size())]);
  }
  void fill(Duration& value) {
    std::int64_t count = 0;
    fill(count);
    value = Duration(count);
  }
  void fill(TimePoint& value) {
    Duration since{};
    fill(since);
    value = TimePoint(since);
  }
  void fill(Device& device) {
    device = {};
    if (below(2) == 1) {
      device.kind = DeviceKind::cuda;
      device.index = static_cast<int>(below(1U << 31U));
    }
  }
  template <typename T, std::size_t N>
  void fill(InlineVector<T, N>& values) {
    values = {};
    for (std::uint64_t left = below(7); left > 0; --left) {
      T value{};
      fill(value);
      values.push_back(value);
    }
  }
  template <config::NamedEnum T>
  void fill(T& value) {
    value = static_cast<T>(below(config::names_of<T>().size()));
  }
  void fill(samplers::Solver& row) {
    row = samplers::solver_table()[below(samplers::solver_table().size())];
  }
  void fill(samplers::MethodKind& row) {
    row = samplers::method_table()[below(samplers::method_table().size())];
  }
  template <typename... Ts>
  void fill(std::variant<Ts...>& one_of) {
    std::uint64_t left = below(sizeof...(Ts)) + 1;
    ((--left == 0 ? fill(one_of.template emplace<Ts>()) : void()), ...);
  }
  template <HasFields T>
  void fill(T& record) {
    const bool was_message = is_message_;
    is_message_ = is_message_ && !std::same_as<T, JobRecord>;
    visit_fields(*this, record);
    is_message_ = was_message;
  }
  template <typename T>
  void fill(std::optional<T>& value) {
    value.reset();
    if (below(2) == 1) {
      fill(value.emplace());
    }
  }
  template <typename T>
  void fill(std::shared_ptr<const T>& value) {
    auto record = std::make_shared<T>();
    fill(*record);
    value = below(2) == 1 ? std::move(record) : nullptr;
  }
  template <typename T>
  void fill(std::vector<T>& values) {
    values.resize(std::min<std::uint64_t>(below(4), most_));
    most_ = ~std::uint64_t{0};  // of entries
    for (T& value : values) {
      fill(value);
    }
  }

  std::mt19937_64 draw_;
  bool is_message_ = false;
  std::uint64_t most_ = 0;
};

/// Changes the field that is the `target`-th to be visited, counted over all
/// structs and lists; `count` says how many there are.
class OneFieldChanged {
 public:
  explicit OneFieldChanged(int target, std::uint64_t seed)
      : target_(target), random_(seed) {}

  template <HasFields T>
  void operator()(const FieldKey& /*key*/, std::vector<T>& values) {
    for (T& value : values) {
      visit_fields(*this, value);
    }
  }
  template <HasFields T>
  void operator()(const FieldKey& /*key*/, std::shared_ptr<const T>& value) {
    if (value != nullptr) {
      auto copy = std::make_shared<T>(*value);
      visit_fields(*this, *copy);
      value = std::move(copy);
    }
  }
  template <typename T>
  void operator()(const FieldKey& key, T& value) {
    if constexpr (HasFields<T>) {
      visit_fields(*this, value);
    } else {
      if (count++ == target_) {
        changed = key.name;
        random_(key, value);
      }
    }
  }

  int count = 0;
  std::string changed;

 private:
  int target_;
  RandomFields random_;
};

/// The configuration of a network of two blocks, as files have it.
inline constexpr const char* kSmallDit =
    R"({"_class_name":"DiTTransformer2DModel","attention_head_dim":8,)"
    R"("in_channels":2,"num_attention_heads":2,"num_embeds_ada_norm":3,)"
    R"("num_layers":2,"out_channels":4,"patch_size":2,"sample_size":8})";

/// A job of three samples over that network that passes `check`.
inline JobRecord small_job(const samplers::ScheduleOptions& options,
                           const samplers::MethodOptions& method) {
  JobRecord job;
  job.model = {.name = "small",
               .denoiser_config = kSmallDit,
               .random_weights = true,
               .weights_xxh3 = 1};
  job.schedule = samplers::Schedule(options).table();
  job.method = method;
  job.cuts = samplers::num_segments(method) == 2 ? std::vector{0, 1, 2}
                                                 : std::vector{0, 2};
  job.guidance.scale = 2.5;
  job.latent_shape = {2, 8, 8};
  job.end = 3;
  job.conditions = {models::Condition(0).hash(), models::Condition(2).hash()};
  job.unconditional = {models::Condition(3).hash()};
  job.seed = 11;
  job.execution_classes = {{.name = "0123456789abcdef", .isa = IsaLevel::avx2}};
  return job;
}

/// What its conditions' hashes stand for.
inline JobValues small_values() {
  JobValues values;
  for (const std::int64_t label : {0, 2, 3}) {
    const models::Condition condition(label);
    values.conditions.emplace(condition.hash(), condition);
  }
  return values;
}

}  // namespace troupe::actors
