#include "actors/artefacts/output_paths.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "kernels/core/atomic_file.h"
#include "kernels/core/exit_codes.h"
#include "kernels/core/text.h"

namespace troupe::actors {
namespace {

bool is_folder(const std::string& out) {
  std::error_code error;
  return out.ends_with('/') || std::filesystem::is_directory(out, error) ||
         std::filesystem::path(out).extension().empty();
}

void write_to_stdout(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    const int reason = errno;
    if (count < 0 && reason != EINTR) {
      throw Error(
          file_error(reason), "--out",
          "cannot write to stdout: " + std::generic_category().message(reason),
          reason == EPIPE ? "its reader has gone: let it read to the end" : "");
    }
    bytes =
        bytes.subspan(static_cast<std::size_t>(std::max<::ssize_t>(count, 0)));
  }
}

}  // namespace

OutputPaths::OutputPaths(const std::string& out,
                         const config::SampleRange& samples, const char* flag)
    : flag_(flag) {
  if (out == "-") {
    check(samples.size() <= 1, out, "stdout takes one picture, not several",
          "give a folder, or -n 1; ./- is a folder of that name");
    before_ = out;
    is_stdout_ = true;
    return;
  }
  check(std::filesystem::path(out).filename() != ".png", out,
        "a name is missing before .png",
        "was a shell variable meant that is not set?");
  const std::size_t open = out.find('{');
  if (open == std::string::npos && is_folder(out)) {
    constexpr int kFolderWidth = 5;
    before_ = out.ends_with('/') ? out : out + "/";
    after_ = ".png";
    width_ = kFolderWidth;
    has_index_ = true;
    return;
  }
  check(out.ends_with(".png"), out, "images are written as PNG",
        "end the name in .png, or give a folder");
  if (open == std::string::npos) {
    check(samples.size() <= 1, out, "one file name for several samples",
          "give a folder or a pattern such as out-{index:05}.png");
    before_ = out;
    return;
  }
  read_pattern(out, open);
}

void OutputPaths::check(bool is_right, const std::string& out,
                        std::string_view what, std::string_view hint) const {
  require(is_right, Errc::invalid_argument, flag_,
          std::string(what) + ": got " + in_quotes(out), hint);
}

void OutputPaths::read_pattern(const std::string& out, std::size_t open) {
  constexpr std::string_view kOpen = "{index";
  constexpr int kMaxWidth = 20;
  constexpr const char* kExample = "for example out-{index:05}.png";
  const std::size_t close = out.find('}', open);
  std::string_view inside = std::string_view(out).substr(open, close - open);
  check(close != out.npos && inside.starts_with(kOpen) &&
            out.find('{', open + 1) == out.npos &&
            out.find('/', open) == out.npos,
        out, "the only placeholder is {index} or {index:05}, in the file name",
        kExample);
  inside.remove_prefix(kOpen.size());
  if (!inside.empty()) {
    check(inside.size() >= 3 && inside.starts_with(":0"), out,
          "a width is written as in {index:05}", kExample);
    width_ = static_cast<int>(
        config::parse_integer(flag_, inside.substr(2), 1, kMaxWidth));
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

void OutputPaths::prepare(std::size_t num_there) {
  if (is_stdout_) {
    return;
  }
  const std::filesystem::path where = folder();
  bool is_new = false;
  std::error_code error;
  const bool is_there = std::filesystem::exists(where, error);
  check(!is_there || std::filesystem::is_directory(where, error),
        where.string(), "a file is there, not a folder",
        "name another folder, or end the name in .png");
  if (has_index_ && !is_there) {
    is_new = std::filesystem::create_directory(where, error);
    if (error) {
      throw Error(
          file_error(error.value()), "--out",
          "cannot make the folder " + where.string() + ": " + error.message(),
          "its parent folder must exist and be writable");
    }
  }
  watched_ = std::make_shared<const WatchedFolder>(where, is_new);
  num_there_ = num_there;
  check_writable_folder(where);
}

void OutputPaths::check_folder() const {
  if (!watched_ || watched_->is_in_place()) {
    return;
  }
  const std::string path = watched_->path().string();
  const bool is_removed = watched_->is_removed();
  const std::string at = is_removed ? "" : watched_->found_at().string();
  throw Error(
      Errc::job_failed, path,
      fmt::format("the output folder was {} while the job ran, with {} of it{}",
                  is_removed ? "removed" : "moved away",
                  counted(num_there_, "image"), at.empty() ? "" : ", to " + at),
      is_removed ? "let it stand until the job has ended"
                 : "move it back to " + path);
}

void OutputPaths::make_removed_folder() {
  if (!watched_ || !has_index_ || num_there_ > 0 || watched_->is_in_place() ||
      !watched_->is_removed()) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directory(folder(), error);
  watched_ = std::make_shared<const WatchedFolder>(folder(), false);
}

bool OutputPaths::write(std::uint64_t index, std::span<const std::byte> bytes,
                        const FileRule& rule) {
  if (is_stdout_) {
    write_to_stdout(bytes);
    return true;
  }
  make_removed_folder();
  check_folder();
  bool is_written = false;
  try {
    is_written = try_write_file(path(index), bytes, rule);
  } catch (const Error&) {
    check_folder();  // why there is no such folder
    throw;
  }
  ++num_there_;
  check_folder();
  return is_written;
}

}  // namespace troupe::actors
