#include "actors/cli/run_outputs.h"

#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "actors/artefacts/contact_sheet.h"
#include "actors/artefacts/png_chunks.h"
#include "actors/artefacts/summary.h"
#include "actors/artefacts/trace_writer.h"
#include "actors/cli/image_recipe.h"
#include "actors/cli/tensor_file.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/log.h"
#include "kernels/core/system/temporary_files.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

void read_save(const std::vector<std::string>& items, RunOutputs& outputs) {
  const std::vector<std::string> kinds = {"latents", "trajectory"};
  for (const std::string& item : items) {
    const std::size_t equals = item.find('=');
    const std::string kind = item.substr(0, equals);
    require(
        std::ranges::count(kinds, kind) == 1 && equals != item.npos &&
            equals + 1 < item.size(),
        Errc::invalid_argument, "--save",
        "got " + in_quotes(item) + ", expected latents=FILE or trajectory=FILE",
        config::suggestion(kind, kinds));
    std::string& path =
        kind == "latents" ? outputs.latents : outputs.trajectory;
    require(path.empty(), Errc::invalid_argument, "--save",
            kind + " has two files", "give one");
    path = item.substr(equals + 1);
    check_tensor_path("--save", path);
  }
}

void check_png_name(const char* flag, const std::string& path) {
  if (path.empty()) {
    return;
  }
  require(is_png_name(path), Errc::invalid_argument, flag,
          "pictures are written as PNG: got " + in_quotes(path),
          "end the name in .png");
  require(path.find('{') == std::string::npos, Errc::invalid_argument, flag,
          "a placeholder, and this is one file: got " + in_quotes(path),
          "only --out and --preview take {index}; name one file");
  check_writable(path);
}

/// The files of --preview and the samples they show.
void read_preview(const config::Config& config, RunOutputs& outputs) {
  const std::string& name = config.preview;
  if (name.empty()) {
    return;
  }
  outputs.preview_samples = config.samples;
  if (config.preview_samples) {
    auto& [begin, end] = outputs.preview_samples;
    begin = std::max(begin, config.preview_samples->begin);
    end = std::min(end, config.preview_samples->end);
    require(begin < end, Errc::invalid_argument,
            config.place_of("preview-samples"),
            "none of this job's samples: got " +
                to_string(*config.preview_samples) + ", expected some of " +
                to_string(config.samples),
            "give global indices, as in --samples A:B");
  }
  const bool is_one_file = name.find('{') == std::string::npos;
  if (is_one_file) {
    check_png_name("--preview", name);
  }
  outputs.preview.emplace(
      name, is_one_file ? config::SampleRange{} : outputs.preview_samples,
      "--preview");
  check_writable(outputs.preview->path(outputs.preview_samples.begin));
}

/// The paths of all previews.
template <typename Body>
void for_each_preview(const RunOutputs& outputs, const Body& body) {
  if (!outputs.preview) {
    return;
  }
  const auto [begin, end] = outputs.preview_samples;
  for (std::uint64_t i = begin; i < end; ++i) {
    body(outputs.preview->path(i).string());
    if (outputs.preview->is_one_file()) {
      return;
    }
  }
}

/// An output with a single file for all samples.
struct OneFile {
  const char* flag;
  std::string path;
};

std::vector<OneFile> single_files(const RunOutputs& outputs) {
  std::vector<OneFile> files = {{"--grid", outputs.grid},
                                {"--save", outputs.latents},
                                {"--save", outputs.trajectory},
                                {"--trace", outputs.trace}};
  std::erase_if(files, [](const OneFile& file) { return file.path.empty(); });
  return files;
}

/// A file that a run would write over.
void check_exists(const char* flag, const std::string& path,
                  config::ExistsPolicy policy) {
  std::error_code error;
  if (policy == config::ExistsPolicy::error && fs::exists(path, error)) {
    throw Error(Errc::invalid_argument, flag,
                "the file is there already: " + path,
                "--exists replace overwrites, --exists skip keeps images");
  }
}

/// With --exists skip a run goes on: what is not an image it writes anew, over
/// what an earlier run wrote there and over nothing else.
void check_earlier(const RunOutputs& outputs, config::ExistsPolicy policy) {
  if (policy != config::ExistsPolicy::skip) {
    return;
  }
  const auto check = [](const char* flag, const std::string& path,
                        const char* what, const auto& is_ours) {
    std::error_code error;
    if (!path.empty() && fs::exists(path, error) && !is_ours(path)) {
      throw Error(Errc::invalid_argument, flag,
                  "what is there is no " + std::string(what) +
                      " of an earlier run: " + path,
                  "give another name; --exists replace overwrites");
    }
  };
  const auto is_of = [](const char* flag, PictureKind kind) {
    return [flag, kind](const std::string& path) {
      const CheckedPng png = check_png(path);
      if (png.is_wreck) {
        log_message(
            LogLevel::warning,
            std::string(flag) +
                ": the file that is there is damaged and made anew: " + path);
      }
      return png.kind == kind || png.is_wreck;
    };
  };
  check("--grid", outputs.grid, "contact sheet",
        is_of("--grid", PictureKind::sheet));
  for_each_preview(outputs, [&](const std::string& path) {
    check("--preview", path, "preview",
          is_of("--preview", PictureKind::preview));
  });
  check("--trace", outputs.trace, "trace", [](const std::string& path) {
    return is_trace(path) || is_blank(first_bytes(path, 8));
  });
}

/// Whether something is at `path`, and a regular file at that.
bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return false;
  }
  if (error || status.type() != fs::file_type::regular) {
    throw Error(Errc::io, "--out",
                "cannot write " + path.string() + ": " +
                    (error ? error.message() : "not a regular file is there"),
                "choose another --out, or move what is there away");
  }
  return true;
}

void remember(const std::string& path, RunOutputs& outputs) {
  if (const std::optional<FileStamp> stamp = stamp_of(path)) {
    outputs.standing.emplace(path, *stamp);
  }
}

void look_for_images(const config::Config& config, const StopFlag& stop,
                     RunOutputs& outputs) {
  for (std::uint64_t i = config.samples.begin; i < config.samples.end; ++i) {
    stop.check("sample", "stopped before it began");
    const fs::path path = outputs.images->path(i);
    if (!is_there(path)) {
      std::error_code error;
      if (fs::is_symlink(path, error)) {  // to where nothing is yet
        check_writable(path);
      }
      continue;
    }
    check_exists("--out", path.string(), config.exists);
    if (config.exists == config::ExistsPolicy::replace) {
      check_writable(path);
    } else {
      outputs.skipped.push_back({.index = i});
      remember(path.string(), outputs);
    }
  }
}

/// One process at a time makes an image. Where another process makes some of
/// these images, a run with --exists skip or replace waits for that process.
void lock_images(const config::Config& config, const StopFlag& stop,
                 OutputPaths& images) {
  constexpr auto kGlance = std::chrono::milliseconds(50);
  bool is_told = false;
  while (!images.try_lock(config.samples)) {
    const std::string where = images.path(config.samples.begin).string();
    require(config.exists != config::ExistsPolicy::error,
            Errc::invalid_argument, "--out",
            "another run makes images of this name now, such as " + where,
            "--exists skip waits for it and makes the rest; or give another "
            "--out");
    if (!std::exchange(is_told, true) && !config.quiet) {
      say(stderr,
          "troupe: another run makes images of this name now, such as " +
              where + ": waiting until it ends");
    }
    stop.check("sample", "stopped while it waited for another run");
    std::this_thread::sleep_for(kGlance);
  }
}

/// Checks that a picture on stdout is the only output there.
void check_stdout(const config::Config& config, const RunOutputs& outputs) {
  if (outputs.images && outputs.images->is_stdout()) {
    require(!config.json, Errc::invalid_argument, config.place_of("out"),
            "the picture and --json cannot both go to stdout",
            "give --out FILE.png, or leave --json out");
    require(config.dry_run || ::isatty(STDOUT_FILENO) == 0,
            Errc::invalid_argument, config.place_of("out"),
            "stdout is a terminal, and a picture is no text",
            "send it on: troupe sample … -o - > dog.png");
  }
  require(config.trace != "-", Errc::invalid_argument, config.place_of("trace"),
          "only --out writes to stdout",
          "name a file; ./- is a file of that name");
}

/// One spelling of a path: "a.png", "./a.png" and a link to it are one file.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? path : whole;
}

void check_distinct(const RunOutputs& outputs, const config::Config& config) {
  std::set<fs::path> seen;
  const auto refuse = [](const fs::path& path) {
    throw Error(Errc::invalid_argument, path.string(),
                "two outputs of one name", "give each its own file");
  };
  const auto add = [&](const std::string& path) {
    if (!seen.insert(resolved(path)).second) {
      refuse(path);
    }
  };
  for (const OneFile& file : single_files(outputs)) {
    add(file.path);
  }
  for_each_preview(outputs, add);
  if (outputs.images && !seen.empty()) {
    const fs::path folder = resolved(outputs.images->folder());
    for (std::uint64_t i = config.samples.begin; i < config.samples.end; ++i) {
      if (seen.contains(folder / outputs.images->path(i).filename())) {
        refuse(outputs.images->path(i));
      }
    }
  }
}

/// Half-written files that a killed run left where this one writes.
void sweep_folders(const RunOutputs& outputs) {
  std::set<fs::path> folders;
  for (const OneFile& file : single_files(outputs)) {
    folders.insert(resolved(file.path).parent_path());
  }
  for (const auto* paths : {&outputs.images, &outputs.preview}) {
    if (*paths) {
      folders.insert(resolved((*paths)->folder()));
    }
  }
  for (const fs::path& folder : folders) {
    sweep_temporaries(folder);
  }
}

}  // namespace

RunOutputs prepare_outputs(const config::Config& config, const Shape& picture,
                           const StopFlag& stop) {
  RunOutputs outputs;
  outputs.grid = config.grid;
  outputs.preview_every = config.preview_every;
  outputs.trace = config.trace;
  outputs.exists = config.exists;
  if (!config.out.empty()) {
    outputs.images.emplace(config.out, config.samples);
  }
  check_stdout(config, outputs);
  read_save(config.save, outputs);
  check_png_name("--grid", outputs.grid);
  read_preview(config, outputs);
  if (!outputs.trace.empty()) {
    check_writable(outputs.trace);
  }
  check_distinct(outputs, config);
  const bool has_files = outputs.images && !outputs.images->is_stdout();
  if (has_files) {
    outputs.images->prepare();
  }
  if (has_files && !config.dry_run) {
    lock_images(config, stop, *outputs.images);
  }
  for (const OneFile& file : single_files(outputs)) {
    check_exists(file.flag, file.path, config.exists);
    if (config.exists == config::ExistsPolicy::skip) {
      remember(file.path, outputs);
    }
  }
  for_each_preview(outputs, [&](const std::string& path) {
    check_exists("--preview", path, config.exists);
  });
  check_earlier(outputs, config.exists);
  if (!outputs.grid.empty()) {
    check_contact_sheet(config.samples.size(), static_cast<int>(picture[2]),
                        static_cast<int>(picture[1]));
  }
  if (has_files) {
    look_for_images(config, stop, outputs);
    outputs.images->set_there(outputs.skipped.size());
  }
  if (!config.dry_run) {
    sweep_folders(outputs);
  }
  return outputs;
}

FileRule RunOutputs::rule_for(const std::string& path) const {
  if (exists == config::ExistsPolicy::replace) {
    return IfThere::replace;
  }
  FileRule rule(IfThere::refuse);
  // The same command may run twice at once.
  rule.takes_equal = exists == config::ExistsPolicy::skip;
  const auto found = standing.find(path);
  if (found != standing.end()) {
    rule.known = found->second;
  }
  return rule;
}

void write_sheet(const RunOutputs& outputs,
                 std::map<std::uint64_t, Image> pictures) {
  if (outputs.grid.empty()) {
    return;
  }
  for (const EarlierImage& image : outputs.skipped) {
    pictures.emplace(image.index,
                     read_image(outputs.images->path(image.index).string()));
  }
  std::vector<Image> order;
  order.reserve(pictures.size());
  for (auto& [index, picture] : pictures) {
    order.push_back(std::move(picture));
  }
  if (!order.empty()) {
    write_file(outputs.grid, encode_png(contact_sheet(order)),
               outputs.rule_for(outputs.grid));
  }
}

}  // namespace troupe::actors
