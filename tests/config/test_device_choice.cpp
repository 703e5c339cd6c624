#include <gtest/gtest.h>

#include "config/load_config.h"
#include "config/parse_value.h"
#include "config/print_config.h"
#include "kernels/core/error.h"

namespace troupe::config {
namespace {

std::string refusal(const std::string& text) {
  try {
    (void)parse_devices("--device", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    return std::string(error.what()) + " | " + error.hint();
  }
  return "accepted";
}

TEST(DeviceChoice, ReadsEveryFormAndWritesItBack) {
  EXPECT_TRUE(parse_devices("", "auto").empty());
  EXPECT_EQ(parse_devices("", "cpu"),
            (std::vector<DeviceChoice>{{DeviceKind::cpu, {}}}));
  EXPECT_EQ(parse_devices("", "CUDA"),
            (std::vector<DeviceChoice>{{DeviceKind::cuda, {}}}));
  EXPECT_EQ(parse_devices("", "gpu:2"),
            (std::vector<DeviceChoice>{{DeviceKind::cuda, 2}}));
  const auto several = parse_devices("", "cuda:0, cuda:1,cpu");
  ASSERT_EQ(several.size(), 3U);
  EXPECT_EQ(to_string(several), "cuda:0,cuda:1,cpu");
  EXPECT_EQ(parse_devices("", to_string(several)), several);
  EXPECT_EQ(to_string(std::vector<DeviceChoice>()), "auto");
}

TEST(DeviceChoice, SuggestsTheDeviceThatWasMeant) {
  EXPECT_NE(refusal("cdua").find("did you mean 'cuda'?"), std::string::npos)
      << refusal("cdua");
  EXPECT_NE(refusal("cuda0").find("did you mean 'cuda:0'?"), std::string::npos)
      << refusal("cuda0");
  EXPECT_NE(refusal("tpu").find("got 'tpu'"), std::string::npos);
}

TEST(DeviceChoice, RefusesWhatNamesNoDevice) {
  for (const char* text :
       {"", " ", "cuda:", "cuda:-1", "cuda:x", "cuda:0x1", "cuda:99999999999",
        "cpu:0", "cuda,,cpu", "cuda:1.5", "cuda:0 cuda:1"}) {
    EXPECT_NE(refusal(text), "accepted") << "'" << text << "'";
  }
}

TEST(DeviceChoice, RefusesADeviceNamedTwiceAndAutoAmongOthers) {
  for (const char* text :
       {"cpu,cpu", "cuda:0,cuda:0", "cuda,cuda:1", "cuda:1,cuda", "auto,cpu"}) {
    EXPECT_NE(refusal(text), "accepted") << text;
  }
  EXPECT_EQ(parse_devices("", "cuda,cpu").size(), 2U);
}

TEST(DeviceChoice, ComesFromFlagsTheEnvironmentAndFiles) {
  Sources sources;
  sources.environment = {{"TROUPE_DEVICE", "device", "cuda:1"}};
  EXPECT_EQ(load_config(Verb::sample, sources).devices.front().index, 1);
  sources.flags = {{"--device", "device", "auto"}};
  const Config config = load_config(Verb::sample, sources);
  EXPECT_TRUE(config.devices.empty());
  EXPECT_EQ(config.place_of("device"), "--device");
  EXPECT_NE(to_toml(Verb::sample, config).find("device = [\"auto\"] "),
            std::string::npos);
}

}  // namespace
}  // namespace troupe::config
