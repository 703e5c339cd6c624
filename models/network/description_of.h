#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "models/files/config_fields.h"
#include "models/network/network_description.h"

namespace troupe::models {

/// The description of a network of the class Net with a Config: what follows
/// from these two. The class Self is derived from it, says the rest, and has
///
///   static void set_blocks(Config& config, int blocks);
///
/// which gives a configuration so many blocks, or the nearest number that the
/// network can have. Config has a list of fields, `latent_shape` and
/// `num_blocks`. Net has its names, kClass (`_class_name` of the file) and
/// kPlace (in error messages), and a constructor of what `read` gives it.
template <typename Self, typename Config, typename Net>
class DescriptionOf : public NetworkDescription {
 public:
  static constexpr std::string_view kClass = Net::kClass;

  explicit DescriptionOf(const Config& config) : config_(config) {}

  [[nodiscard]] Shape latent_shape() const final {
    return config_.latent_shape();
  }
  [[nodiscard]] std::unique_ptr<DenoiserDescription> with_blocks(
      int blocks) const final {
    Config config = config_;
    Self::set_blocks(config, blocks);
    return std::make_unique<Self>(config);
  }

 protected:
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] std::string_view class_name() const final { return kClass; }
  [[nodiscard]] std::string_view place() const final { return Net::kPlace; }
  [[nodiscard]] int num_blocks() const final { return config_.num_blocks(); }
  [[nodiscard]] std::unique_ptr<Network> read(LayerReader& reader,
                                              SegmentRange segment,
                                              DType compute) const final {
    return std::make_unique<Net>(reader, config_, segment, compute);
  }
  [[nodiscard]] std::uint64_t hash_with_config(
      std::uint64_t tensors) const final {
    return hash_of(config_, tensors);
  }

 private:
  Config config_;
};

/// The row of such a network. parse: config.json to the configuration.
template <typename Description, auto parse>
[[nodiscard]] constexpr DenoiserRow network_row() {
  return {
      .class_name = Description::kClass,
      .describe = [](const Json& json) -> std::unique_ptr<DenoiserDescription> {
        return std::make_unique<Description>(parse(json));
      }};
}

}  // namespace troupe::models
