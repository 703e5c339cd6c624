#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "models/files/safetensors.h"
#include "tests/cli/program.h"

// Runs from a prompt to a picture, with tiny pipelines of random weights. For
// tests that are compiled alone: the names are short.

namespace troupe::test {

using Arguments = std::vector<std::string>;

inline Arguments joined(Arguments one, const Arguments& more) {
  one = overridden(std::move(one), more);
  return one;
}

inline constexpr const char* kPixArt = "tiny-pixart-sigma";
inline constexpr const char* kStableDiffusion = "tiny-sd15";
inline constexpr const char* kStableDiffusionXl = "tiny-sdxl";

/// A job of a tiny pipeline in four steps.
inline Outcome sample(const Arguments& more,
                      const std::string& model = kPixArt) {
  return run(joined({"sample", "--random-weights", model, "--steps", "4",
                     "--progress", "none", "--json"},
                    more));
}

inline nlohmann::json done(const Arguments& more,
                           const std::string& model = kPixArt) {
  const Outcome outcome = sample(more, model);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return outcome.json();
}

inline void expect_refused(const Outcome& outcome, int exit_code,
                           const std::string& says) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

/// A copy of a golden pipeline that a test may change.
class ChangedPipeline {
 public:
  explicit ChangedPipeline(const std::string& name) {
    std::filesystem::copy(std::filesystem::path(TROUPE_GOLDEN) / name, part(""),
                          std::filesystem::copy_options::recursive);
  }

  [[nodiscard]] std::filesystem::path part(const std::string& name) const {
    return std::filesystem::path(folder_.path("model")) / name;
  }
  /// The tokenizer of another golden pipeline in place of its own.
  void take_tokenizer_of(const std::string& name) const {
    std::filesystem::remove_all(part("tokenizer"));
    std::filesystem::copy(
        std::filesystem::path(TROUPE_GOLDEN) / name / "tokenizer",
        part("tokenizer"));
  }
  /// A file of it, new or in place of the old one.
  void replace(const std::string& file, const std::string& content) const {
    (void)folder_.write("model/" + file, content);
  }
  /// A file of it with the first `from` replaced by `to`.
  void change(const std::string& file, const std::string& from,
              const std::string& to) const {
    std::string text = folder_.read("model/" + file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    replace(file, text.replace(at, from.size(), to));
  }
  /// Of the prompt "a cat", unless `more` has another.
  [[nodiscard]] Outcome run_verb(const std::string& verb,
                                 const Arguments& more = {}) const {
    Arguments job = {verb,  "--model", part("").string(),      "--dtype",
                     "f32", "--out",   path("out.safetensors")};
    if (std::ranges::find(more, "--prompt") == more.end()) {
      job = joined(job, {"--prompt", "a cat"});
    }
    return run(joined(job, more));
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return folder_.path(name);
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.read(name);
  }
  /// Sets keys of a JSON file.
  void set(const std::string& name, const nlohmann::json& keys) const {
    auto json = nlohmann::json::parse(folder_.read("model/" + name));
    json.update(keys);
    (void)folder_.write("model/" + name, json.dump());
  }
  /// fn(tensors) changes those of a file of weights.
  template <typename Fn>
  void change_tensors(const std::string& name, const Fn& fn) const {
    std::vector<NamedTensor> tensors;
    const models::SafetensorsFile file(part(name));
    for (const models::SafetensorsEntry entry : file.header().entries) {
      tensors.push_back({std::string(entry.name), file.read(entry)});
    }
    fn(tensors);
    models::write_safetensors(part(name), tensors);
  }
  /// The autoencoder makes pictures of so many channels.
  void set_channels(std::int64_t channels) const {
    set("vae/config.json", {{"out_channels", channels}});
    change_tensors("vae/diffusion_pytorch_model.safetensors",
                   [&](std::vector<NamedTensor>& tensors) {
                     for (auto& [name, tensor] : tensors) {
                       if (name.starts_with("decoder.conv_out.")) {
                         std::vector<std::int64_t> extents(
                             tensor.shape().extents().begin(),
                             tensor.shape().extents().end());
                         extents.front() = channels;
                         tensor = Tensor(Shape(extents), DType::f32);
                         std::ranges::fill(tensor.span<float>(), 0.1F);
                       }
                     }
                   });
  }
  [[nodiscard]] Outcome draw(const std::string& name) const {
    return run_verb("sample", {"--steps", "2", "--seed", "3", "--progress",
                               "none", "--out", path(name)});
  }

 private:
  TempFolder folder_;
};

inline const Arguments kFox = {"--prompt", "a red fox in the snow"};

}  // namespace troupe::test
