#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::test {

/// The program that the tests run: the built one, or what the environment's
/// SANITIZED_PROGRAM names.
[[nodiscard]] const std::string& program_path();
/// Whether it was built with sanitizers, which take memory of their own.
[[nodiscard]] bool is_sanitized();

/// What a finished run of the program left behind.
struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
  std::uint64_t peak_rss_bytes = 0;  ///< the most memory it held

  /// The last line of stdout as JSON.
  [[nodiscard]] nlohmann::json json() const;
  [[nodiscard]] long err_lines() const;
};

/// A run of the built program, without a shell.
class Program {
 public:
  using Environment = std::vector<std::string>;  ///< "NAME=value"
  struct Surroundings {
    std::vector<int> ignored = {};  ///< signals that the parent ignores
    int out = -1;                   ///< its stdout instead of a pipe
    int in = -1;                    ///< its stdin instead of this process's
  };
  explicit Program(std::vector<std::string> arguments,
                   const Environment& environment = {});
  Program(std::vector<std::string> arguments, const Environment& environment,
          const Surroundings& around);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits until `is_so()`. Throws if the program ends before that, or after a
  /// minute.
  void await(const std::function<bool()>& is_so) const;
  void signal(int number) const;
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Bytes of its stdout that nobody has read.
  [[nodiscard]] int unread() const;
  /// Waits for its end.
  [[nodiscard]] Outcome wait();
  /// The same without reading what it writes; the exit code.
  [[nodiscard]] int wait_unread();

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
};

[[nodiscard]] Outcome run(std::vector<std::string> arguments,
                          const Program::Environment& environment = {});

/// A folder that lives as long as the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] std::string path(const std::string& name = {}) const;
  [[nodiscard]] std::string write(const std::string& name,
                                  const std::string& content) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  /// Names of the entries, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path folder_;
};

/// Expects every file of `expected` in `folder`, byte for byte.
void expect_files_of(const TempFolder& expected, const TempFolder& folder);

/// Puts another value into the recipe of an image in `folder`; null takes the
/// key, which is one of the recipe itself, out.
void change_recipe(const TempFolder& folder, const std::string& name,
                   const char* pointer, const nlohmann::json& value);

/// `arguments`, and `more` behind them. Of an option that both give, only what
/// `more` says stays; a list or prompt of both.
[[nodiscard]] std::vector<std::string> overridden(
    std::vector<std::string> arguments, const std::vector<std::string>& more);

/// `run` with 2 GiB of address space. Not for a sanitized program, whose shadow
/// needs all of it.
[[nodiscard]] Outcome run_in_2_gib(const std::vector<std::string>& arguments);

/// A run that takes well under a second: a tiny random model, four steps.
[[nodiscard]] std::vector<std::string> tiny_sample(
    std::vector<std::string> more);

}  // namespace troupe::test
