#include "models/files/unusable_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/text.h"
#include "models/files/json.h"
#include "models/text/prompt_pipeline.h"

namespace troupe::models {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClassPipeline = "DiTPipeline";
constexpr std::string_view kWanted =
    "give the folder of a diffusers checkpoint";

/// "owner/name", as the Hugging Face Hub names repositories; not a path that
/// begins in a folder that is here.
bool is_hub_name(const fs::path& path) {
  const std::string text = path.string();
  const auto is_word = [](std::string_view part) {
    return !part.empty() && part.front() != '.' &&
           std::ranges::all_of(part, [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
  };
  const std::size_t slash = text.find('/');
  std::error_code error;
  return slash != std::string::npos && is_word(text.substr(0, slash)) &&
         is_word(text.substr(slash + 1)) &&
         !fs::is_directory(text.substr(0, slash), error);
}

Error of_a_file(const fs::path& path) {
  constexpr std::array<std::string_view, 6> kWeights = {
      ".safetensors", ".ckpt", ".pt", ".pth", ".bin", ".gguf"};
  const std::string extension = path.extension().string();
  const bool is_weights = std::ranges::count(kWeights, extension) > 0;
  return {Errc::unsupported, path.string(),
          is_weights ? "a single file of weights: got a file, expected a "
                       "folder in diffusers layout (single files are not read "
                       "yet)"
                     : "got a file, expected a checkpoint folder",
          is_weights ? "diffusers makes a folder of it: "
                       "from_single_file(FILE), then save_pretrained(DIR)"
                     : std::string(kWanted)};
}

Error of_another_pipeline(const fs::path& folder, const std::string& pipeline) {
  return {Errc::unsupported, folder.string(),
          "another pipeline: got " + pipeline + ", expected " +
              std::string(kClassPipeline) + " or one of " +
              prompt_pipeline_names() + " (others are coming)",
          "facebook/DiT-XL-2-256, PixArt-alpha/PixArt-Sigma-XL-2-1024-MS and "
          "stable-diffusion-v1-5/stable-diffusion-v1-5 run, for example"};
}

/// What may be in a component's folder instead of the weights: a part of a
/// name, what is expected after the stem.
struct Instead {
  std::string_view in_name;
  std::string_view what;
  std::string_view expected;
  std::string_view hint;
};

constexpr std::string_view kOtherName = "no weights under a name that is read";
constexpr std::string_view kRename = "rename it, if these are the weights";
constexpr std::string_view kOtherFormat = "no weights in safetensors";
constexpr std::string_view kDownload = "download the safetensors, too";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::array kInstead = {
    Instead{".safetensors.index.", kOtherName, ".safetensors.index.json",
            kRename},
    Instead{"-of-", "shards of weights without their index",
            ".safetensors.index.json, too", "download the index"},
    Instead{".safetensors", kOtherName,
            ".safetensors, or its variant fp16 or bf16", kRename},
    Instead{".bin", kOtherFormat, kSafetensors, kDownload},
    Instead{".ckpt", kOtherFormat, kSafetensors, kDownload},
    Instead{".pt", kOtherFormat, kSafetensors, kDownload},
    Instead{".gguf", kOtherFormat, kSafetensors, kDownload},
    Instead{".msgpack", kOtherFormat, kSafetensors, kDownload},
    Instead{".onnx", kOtherFormat, kSafetensors, kDownload},
};

/// Whether a program that downloads has given the name to a file that is not
/// whole yet.
bool is_unfinished(const std::string& name) {
  constexpr std::array<std::string_view, 8> kEnds = {
      ".incomplete", ".crdownload", ".part", ".partial",
      ".download",   ".opdownload", ".tmp",  ".aria2"};
  return std::ranges::count(kEnds, fs::path(name).extension().string()) > 0;
}

/// The names in a folder, sorted; none where it cannot be listed.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    names.push_back(item.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool is_pickled(const std::string& name) {
  const std::string extension = fs::path(name).extension().string();
  return extension == ".bin" || extension == ".pt" || extension == ".pth" ||
         extension == ".ckpt";
}

/// Whether the converter takes it for the weights of a part, if it is pickled.
bool is_of_a_part(const std::string& name) {
  return name.starts_with("diffusion_pytorch_model") ||
         name.starts_with("pytorch_model");
}

/// The text quoted as one word of a shell.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') ||
           std::string_view("/._-+=:@%,").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) {
    return text;
  }
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return word + "'";
}

Error of_pickles(const fs::path& folder, const ConversionCommand& command) {
  return {Errc::unsupported, folder.string(),
          "only pickled weights (.bin, .pt), which could run any code",
          "run: " + shell_word(command.converter.string()) + " " +
              shell_word(command.folder.string())};
}

/// Of a cache of the Hub, the snapshot that its main branch names, or the first
/// one; empty: there is none.
fs::path snapshot_in(const fs::path& cache) {
  const fs::path snapshots = cache / "snapshots";
  const std::vector<std::string> names = names_in(snapshots);
  std::ifstream file(cache / "refs" / "main");
  std::string main;
  std::getline(file, main);
  return std::ranges::count(names, main) > 0 ? snapshots / main
         : names.empty()                     ? fs::path()
                                             : snapshots / names.front();
}

constexpr std::string_view kHubPrefix = "models--";

/// The last name in a path, also in "models--a--b/" and, from within, in ".".
std::string folder_name(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::absolute(folder, error).lexically_normal();
  return whole.has_filename() ? whole.filename().string()
                              : whole.parent_path().filename().string();
}

/// Whether it is a cache of the Hub, even one whose download has hardly begun.
bool is_hub_cache(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "snapshots", error) ||
         folder_name(folder).starts_with(kHubPrefix);
}

/// The name of a repository whose cache folder is called `folder`.
std::string name_on_the_hub(const std::string& folder) {
  std::string name = folder.starts_with(kHubPrefix)
                         ? folder.substr(kHubPrefix.size())
                         : folder;
  const std::size_t between = name.find("--");
  return between == std::string::npos ? name : name.replace(between, 2, "/");
}

Error of_hub_cache(const fs::path& folder) {
  const fs::path snapshot = snapshot_in(folder);
  return {Errc::not_found, folder.string(),
          "a cache folder of the Hub, which has checkpoints in snapshots/: " +
              (snapshot.empty() ? std::string("none is there")
                                : "expected one of these"),
          snapshot.empty()
              ? "download it: hf download " +
                    name_on_the_hub(folder_name(folder)) + " --local-dir DIR"
              : "give " + snapshot.string()};
}

/// A folder with a pipeline, at most so many levels down; empty: none is found
/// among the first `most` folders. A large disk is not searched through.
fs::path pipeline_within(const fs::path& folder, int& most, int levels = 3) {
  std::error_code error;
  if (fs::exists(folder / "model_index.json", error)) {
    return folder;
  }
  for (const std::string& name : names_in(folder)) {
    if (levels == 0 || most <= 0 || name.front() == '.' ||
        !fs::is_directory(folder / name, error)) {
      continue;
    }
    fs::path found = pipeline_within(folder / name, --most, levels - 1);
    if (!found.empty()) {
      return found;
    }
  }
  return {};
}

}  // namespace

std::string other_pipeline(const fs::path& folder) {
  try {
    const Json index = Json::read_file(folder / "model_index.json");
    const std::string name = index.string("_class_name", "");
    const bool runs =
        name == kClassPipeline || find_prompt_pipeline(name) != nullptr;
    return runs ? std::string() : name;
  } catch (const Error&) {
    return {};
  }
}

Error why_unusable(const ConversionCommand& command) {
  const fs::path& path = command.folder;
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    return of_a_file(path);
  }
  if (!fs::exists(path, error)) {
    const std::string name = path.string();
    return {Errc::not_found, name, "no such folder",
            is_hub_name(path)
                ? "download it first: hf download " + name + " --local-dir DIR"
                : std::string(kWanted)};
  }
  const std::string pipeline = other_pipeline(path);
  if (!pipeline.empty()) {
    return of_another_pipeline(path, in_quotes(pipeline));
  }
  const bool has_pickles = std::ranges::any_of(names_in(path), is_pickled);
  if (!has_pickles && is_hub_cache(path)) {
    return of_hub_cache(path);
  }
  if (has_pickles) {
    return of_pickles(path, command);
  }
  int most = 1000;
  const fs::path within = pipeline_within(path, most);
  return {Errc::not_found, path.string(),
          "no model is here: expected transformer/, unet/ or config.json",
          within.empty() || within == path ? std::string(kWanted)
                                           : "give " + within.string()};
}

Error why_no_weights(const fs::path& folder, std::string_view stem,
                     const ConversionCommand& command) {
  const std::vector<std::string> names = names_in(folder);
  const bool is_whole_model = folder == command.folder;
  if (std::ranges::any_of(names, [&](const std::string& name) {
        return is_pickled(name) && (is_whole_model || is_of_a_part(name));
      })) {
    return of_pickles(folder, command);
  }
  const auto unfinished = std::ranges::find_if(names, is_unfinished);
  if (unfinished != names.end()) {
    return {Errc::not_found, folder.string(),
            std::string(kOtherName) + ": got " + in_quotes(*unfinished) +
                ", expected " + std::string(stem) + ".safetensors",
            "an unfinished download: get it again"};
  }
  for (const Instead& row : kInstead) {
    const auto got = std::ranges::find_if(names, [&](const std::string& name) {
      return name.find(row.in_name) != std::string::npos;
    });
    if (got != names.end()) {
      return {Errc::not_found, folder.string(),
              std::string(row.what) + ": got " + in_quotes(*got) +
                  ", expected " + std::string(stem) + std::string(row.expected),
              std::string(row.hint)};
    }
  }
  return {Errc::not_found, folder.string(),
          "no weights: expected " + std::string(stem) + ".safetensors",
          std::string(kWanted)};
}

}  // namespace troupe::models
