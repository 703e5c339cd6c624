#include "actors/artefacts/output_paths.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

[[noreturn]] void fail(const std::string& out, std::string_view what,
                       std::string_view hint) {
  throw Error(Errc::invalid_argument, "--out",
              std::string(what) + ": got '" + out + "'", hint);
}

bool is_folder(const std::string& out) {
  std::error_code error;
  return out.ends_with('/') || std::filesystem::is_directory(out, error) ||
         std::filesystem::path(out).extension().empty();
}

}  // namespace

OutputPaths::OutputPaths(const std::string& out,
                         const config::SampleRange& samples) {
  constexpr std::string_view kOpen = "{index";
  constexpr int kFolderWidth = 5;
  constexpr int kMaxWidth = 20;
  if (std::filesystem::path(out).filename() == ".png") {
    fail(out, "a name is missing before .png",
         "was a shell variable meant that is not set?");
  }
  const std::size_t open = out.find('{');
  if (open == std::string::npos && is_folder(out)) {
    before_ = out.ends_with('/') ? out : out + "/";
    after_ = ".png";
    width_ = kFolderWidth;
    has_index_ = true;
    return;
  }
  if (!out.ends_with(".png")) {
    fail(out, "images are written as PNG",
         "end the name in .png, or give a folder");
  }
  if (open == std::string::npos) {
    if (samples.size() > 1) {
      fail(out, "one file name for several samples",
           "give a folder or a pattern such as out-{index:05}.png");
    }
    before_ = out;
    return;
  }
  const std::size_t close = out.find('}', open);
  std::string inside = close == std::string::npos
                           ? std::string()
                           : out.substr(open, close - open);
  if (!inside.starts_with(kOpen) || out.find('{', open + 1) != out.npos ||
      out.find('/', open) != std::string::npos) {
    fail(out, "the only placeholder is {index} or {index:05}, in the file name",
         "for example out-{index:05}.png");
  }
  inside.erase(0, kOpen.size());
  if (!inside.empty()) {
    if (inside.size() < 3 || inside.substr(0, 2) != ":0") {
      fail(out, "a width is written as in {index:05}",
           "for example out-{index:05}.png");
    }
    width_ = static_cast<int>(config::parse_integer(
        "--out", std::string_view(inside).substr(2), 1, kMaxWidth));
  }
  before_ = out.substr(0, open);
  after_ = out.substr(close + 1);
  has_index_ = true;
}

std::filesystem::path OutputPaths::path(std::uint64_t index) const {
  return has_index_ ? fmt::format("{}{:0{}}{}", before_, index, width_, after_)
                    : before_;
}

std::filesystem::path OutputPaths::folder() const {
  const std::filesystem::path parent = path(0).parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

std::unique_ptr<NewFolder> OutputPaths::prepare() const {
  const std::filesystem::path where = folder();
  std::unique_ptr<NewFolder> made;
  std::error_code error;
  if (std::filesystem::exists(where, error) &&
      !std::filesystem::is_directory(where, error)) {
    fail(where.string(), "a file is there, not a folder",
         "name another folder, or end the name in .png");
  }
  if (has_index_ && !std::filesystem::exists(where, error)) {
    if (std::filesystem::create_directory(where, error)) {
      made = std::make_unique<NewFolder>(where);
    }
    if (error) {
      throw Error(
          Errc::io, "--out",
          "cannot make the folder " + where.string() + ": " + error.message(),
          "its parent folder must exist and be writable");
    }
  }
  check_writable_folder(where);
  return made;
}

void OutputPaths::write(std::uint64_t index, std::span<const std::byte> bytes,
                        IfThere if_there) const {
  std::error_code error;
  if (has_index_ && !std::filesystem::exists(folder(), error)) {
    std::filesystem::create_directory(folder(), error);
  }
  write_file(path(index), bytes, if_there);
}

NewFolder::NewFolder(std::filesystem::path folder)
    : folder_(std::move(folder)) {}

NewFolder::~NewFolder() {
  std::error_code error;
  std::filesystem::remove(folder_, error);  // fails where there is something
}

}  // namespace troupe::actors
