#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace troupe::test {

inline constexpr const char* kWeights =
    "transformer/diffusion_pytorch_model.safetensors";

inline constexpr const char* kTransformer = "transformer/config.json";

inline constexpr const char* kVaeWeights =
    "vae/diffusion_pytorch_model.safetensors";

inline constexpr const char* kScheduler = "scheduler/scheduler_config.json";

/// A folder as diffusers writes it, around a small golden network: two blocks,
/// four latent channels, five classes.
class Pipeline {
 public:
  Pipeline() {
    std::filesystem::copy(std::string(TROUPE_GOLDEN) + "/dit_default",
                          folder_.path("transformer"));
    (void)folder_.write("model_index.json",
                        R"({"_class_name": "DiTPipeline",
                            "id2label": {"0": "tench, fish", "3": "owl"}})");
    std::filesystem::create_directory(folder_.path("scheduler"));
    replace(kScheduler, R"({"_class_name": "DDIMScheduler"})");
  }

  void replace(const std::string& name, const std::string& content) const {
    (void)folder_.write(name, content);
  }
  /// Sets every element of a tensor.
  void fill(const std::string& tensor, float value) const {
    std::string file = folder_.read(kWeights);
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    const auto header = nlohmann::json::parse(file.substr(sizeof size, size));
    const auto offsets = header.at(tensor).at("data_offsets");
    const std::size_t begin = sizeof size + size;
    for (std::size_t at = offsets[0]; at < offsets[1]; at += sizeof value) {
      std::memcpy(file.data() + begin + at, &value, sizeof value);
    }
    replace(kWeights, file);
  }
  /// Sets one key of a JSON file.
  void set(const std::string& name, const std::string& key,
           const nlohmann::json& value) const {
    auto json = nlohmann::json::parse(folder_.read(name));
    json[key] = value;
    replace(name, json.dump());
  }
  /// fn(header) changes the header of a file of weights.
  template <typename Fn>
  void edit_header(const std::string& name, const Fn& fn) const {
    const std::string file = folder_.read(name);
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    auto header = nlohmann::json::parse(file.substr(sizeof size, size));
    fn(header);
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::string bytes(sizeof length, 0);
    std::memcpy(bytes.data(), &length, sizeof length);
    replace(name, bytes + text + file.substr(sizeof size + size));
  }
  /// Adds an f32 tensor without elements.
  void add_tensor(const std::string& name, const std::string& tensor) const {
    edit_header(name, [&](nlohmann::json& header) {
      std::uint64_t end = 0;
      for (const auto& item : header) {
        if (item.contains("data_offsets")) {
          end = std::max<std::uint64_t>(end, item["data_offsets"][1]);
        }
      }
      header[tensor] = {
          {"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {end, end}}};
    });
  }
  /// A decoder beside the transformer, one of the golden ones.
  void add_vae(const std::string& golden) const {
    std::filesystem::copy(std::string(TROUPE_GOLDEN) + "/" + golden,
                          folder_.path("vae"));
  }
  /// A file with one tensor of this name; returns its path.
  [[nodiscard]] std::string write_tensors(const std::string& name,
                                          const std::string& tensor) const {
    const nlohmann::json header = {
        {tensor, {{"dtype", "U8"}, {"shape", {1}}, {"data_offsets", {0, 1}}}}};
    const std::string text = header.dump();
    const std::uint64_t size = text.size();
    std::string bytes(sizeof size, 0);
    std::memcpy(bytes.data(), &size, sizeof size);
    return folder_.write(name, bytes + text + "x");
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.read(name);
  }
  [[nodiscard]] Outcome sample(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"sample",
                                          "-m",
                                          folder_.path(),
                                          "--steps",
                                          "3",
                                          "--class",
                                          "1",
                                          "--dtype",
                                          "f32",
                                          "--progress",
                                          "none",
                                          "--save",
                                          "latents=" + folder_.path("out.npz")};
    arguments = overridden(std::move(arguments), more);
    return run(std::move(arguments));
  }
  [[nodiscard]] std::string path(const std::string& name = {}) const {
    return folder_.path(name);
  }
  [[nodiscard]] bool wrote_something() const {
    return std::filesystem::exists(folder_.path("out.npz"));
  }

 private:
  TempFolder folder_;
};

inline void expect_refused(const Pipeline& pipeline, const Outcome& outcome,
                           int exit_code, const std::string& says) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_FALSE(pipeline.wrote_something());
}

}  // namespace troupe::test
