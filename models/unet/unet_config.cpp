#include "models/unet/unet_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/layers/activation_names.h"

namespace troupe::models {
namespace {

constexpr const char* kCannotRun = "this UNet cannot be run";
constexpr std::int64_t kMostLevels = 8;

/// A key that changes the arithmetic, and the values that Troupe computes, as
/// JSON and separated by spaces. null stands for a missing key, too.
struct OnlyValue {
  std::string_view key;
  std::string_view values;
};

constexpr std::array kOnlyValues = {
    OnlyValue{"addition_embed_type", R"(null "text_time")"},
    OnlyValue{"attention_type", R"(null "default")"},
    OnlyValue{"center_input_sample", "null false"},
    OnlyValue{"class_embed_type", "null"},
    OnlyValue{"class_embeddings_concat", "null false"},
    OnlyValue{"conv_in_kernel", "null 3"},
    OnlyValue{"conv_out_kernel", "null 3"},
    OnlyValue{"cross_attention_norm", "null"},
    OnlyValue{"downsample_padding", "null 1"},
    OnlyValue{"dual_cross_attention", "null false"},
    OnlyValue{"encoder_hid_dim", "null"},
    OnlyValue{"encoder_hid_dim_type", "null"},
    OnlyValue{"flip_sin_to_cos", "null true"},
    OnlyValue{"freq_shift", "null 0"},
    OnlyValue{"mid_block_only_cross_attention", "null false"},
    OnlyValue{"mid_block_scale_factor", "null 1 1.0"},
    OnlyValue{"mid_block_type", R"("UNetMidBlock2DCrossAttn")"},
    OnlyValue{"num_attention_heads", "null"},
    OnlyValue{"num_class_embeds", "null"},
    OnlyValue{"only_cross_attention", "null false"},
    OnlyValue{"resnet_out_scale_factor", "null 1 1.0"},
    OnlyValue{"resnet_skip_time_act", "null false"},
    OnlyValue{"resnet_time_scale_shift", R"(null "default")"},
    OnlyValue{"reverse_transformer_layers_per_block", "null"},
    OnlyValue{"time_cond_proj_dim", "null"},
    OnlyValue{"time_embedding_act_fn", "null"},
    OnlyValue{"time_embedding_type", R"(null "positional")"},
    OnlyValue{"timestep_post_act", "null"},
};

void check_kind(const Json& json) {
  const ValueCheck check(json, kCannotRun);
  for (const OnlyValue& row : kOnlyValues) {
    // The class has a mid block where the key is missing, none where it is
    // null.
    if (row.key == "mid_block_type" &&
        !std::ranges::count(json.keys(), row.key)) {
      continue;
    }
    check(has_word(row.values, json.written(row.key)), row.key,
          "one of " + std::string(row.values));
  }
}

/// One number for each level: the file has a list, or one number for all.
std::vector<std::int64_t> per_level(const Json& json, std::string_view key,
                                    std::int64_t missing, std::size_t levels,
                                    std::int64_t least, std::int64_t most) {
  if (!json.is_list(key)) {
    return std::vector<std::int64_t>(levels,
                                     json.integer(key, missing, least, most));
  }
  std::vector<std::int64_t> values = json.integers(key, {}, least, most);
  if (values.size() != levels) {
    throw Error(Errc::corrupt_file, json.place(),
                std::string(key) + ": got " + std::to_string(values.size()) +
                    " numbers, expected " + std::to_string(levels) +
                    ", one for each of block_out_channels",
                "correct this file");
  }
  return values;
}

/// Whether the blocks attend, one for each level.
std::vector<bool> attends(const Json& json, std::string_view key,
                          std::vector<std::string> missing,
                          std::string_view plain, std::string_view attending,
                          std::size_t levels) {
  const std::vector<std::string> types =
      json.has(key) ? json.string_list(key) : std::move(missing);
  require(types.size() == levels, Errc::corrupt_file, json.place(),
          std::string(key) + ": expected one for each of block_out_channels",
          "correct this file");
  const ValueCheck check(json, kCannotRun);
  std::vector<bool> result;
  for (const std::string& type : types) {
    check(type == plain || type == attending, key, in_quotes(type),
          std::string(plain) + " or " + std::string(attending));
    result.push_back(type == attending);
  }
  return result;
}

void parse_levels(const Json& json, UNetConfig& config) {
  const std::vector<std::int64_t> widths =
      json.integers("block_out_channels", {320, 640, 1280, 1280}, 1, 65536);
  const std::size_t count = widths.size();
  require(count >= 1 && count <= kMostLevels, Errc::corrupt_file, json.place(),
          "block_out_channels: expected 1 to 8 widths", "correct this file");
  // The class calls them head sizes; they are numbers of heads.
  const auto heads = per_level(json, "attention_head_dim", 8, count, 1, 4096);
  const auto depths =
      per_level(json, "transformer_layers_per_block", 1, count, 1, 1024);
  const auto layers = per_level(json, "layers_per_block", 2, count, 1, 64);
  ValueCheck(json, kCannotRun)(
      std::ranges::count(layers, layers.front()) == std::ssize(layers),
      "layers_per_block", "several numbers", "one");
  config.layers_per_block = layers.front();
  const std::string down = "CrossAttnDownBlock2D";
  const std::string up = "CrossAttnUpBlock2D";
  const auto down_attends =
      attends(json, "down_block_types", {down, down, down, "DownBlock2D"},
              "DownBlock2D", down, count);
  const auto up_attends =
      attends(json, "up_block_types", {"UpBlock2D", up, up, up}, "UpBlock2D",
              up, count);
  for (std::size_t i = 0; i < count; ++i) {
    if (widths[i] % config.norm_num_groups != 0 || widths[i] % heads[i] != 0) {
      throw Error(Errc::corrupt_file, json.place(),
                  "block_out_channels: got " + std::to_string(widths[i]) +
                      ", expected a multiple of norm_num_groups " +
                      std::to_string(config.norm_num_groups) + " and of " +
                      std::to_string(heads[i]) + " heads",
                  "correct this file");
    }
    config.levels.push_back(
        {widths[i], heads[i], down_attends[i] ? depths[i] : 0});
    config.up_depths.push_back(up_attends[count - 1 - i] ? depths[i] : 0);
  }
  config.mid_depth = depths.back();
}

void parse_sample_size(const Json& json, UNetConfig& config) {
  if (json.is_list("sample_size")) {
    const auto sides = json.integers("sample_size", {}, 1, 65536);
    require(sides.size() == 2, Errc::corrupt_file, json.place(),
            "sample_size: expected one number or two", "correct this file");
    config.sample_height = sides[0];
    config.sample_width = sides[1];
  } else {
    config.sample_height = json.integer("sample_size", 64, 1, 65536);
    config.sample_width = config.sample_height;
  }
}

void parse_additions(const Json& json, UNetConfig& config) {
  if (json.string("addition_embed_type", "") != "text_time") {
    return;
  }
  config.size_embed_dim = json.integer("addition_time_embed_dim", 0, 2, 65536);
  const std::int64_t added =
      json.integer("projection_class_embeddings_input_dim", 0, 1, 1 << 20);
  config.pooled_width = added - UNetConfig::kSizes * config.size_embed_dim;
  require(config.pooled_width > 0, Errc::corrupt_file, json.place(),
          "projection_class_embeddings_input_dim: got " +
              std::to_string(added) +
              ", expected more than six times addition_time_embed_dim",
          "correct this file");
}

}  // namespace

UNetConfig parse_unet_config(const Json& json) {
  check_kind(json);
  UNetConfig config;
  config.activation = parse_activation(json, kCannotRun);
  const ValueCheck check(json, kCannotRun);
  check(json.has("norm_num_groups") ||
            !std::ranges::count(json.keys(), "norm_num_groups"),
        "norm_num_groups", "a number");
  check(!json.is_list("cross_attention_dim"), "cross_attention_dim", "a list",
        "a number");
  read_fields(json, config);
  parse_levels(json, config);
  parse_sample_size(json, config);
  parse_additions(json, config);
  if (!json.has("time_embedding_dim")) {
    config.time_embed_dim = 4 * config.levels.front().width;
  }
  return config;
}

std::uint64_t hash_of(const UNetConfig& config, std::uint64_t tensors) {
  FieldHash hash({tensors, config.levels.size()});
  visit_fields(hash, config);
  return hash.digest();
}

std::string unet_config_keys() {
  // These change nothing here.
  std::string others =
      "addition_embed_type_num_heads dropout upcast_attention "
      "use_linear_projection";
  for (const OnlyValue& row : kOnlyValues) {
    others += " " + std::string(row.key);
  }
  return keys_of<UNetConfig>(others);
}

}  // namespace troupe::models
