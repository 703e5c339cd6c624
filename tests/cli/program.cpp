#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "actors/artefacts/png.h"
#include "config/option_table.h"

namespace troupe::test {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe");
  }
  return {ends[0], ends[1]};
}

int code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The option that an argument names, if it does.
const config::Option* option_of(const std::string& argument) {
  if (argument.starts_with("--")) {
    return config::find_option(argument.substr(2));
  }
  const auto options = config::option_table();
  const auto found = std::ranges::find_if(options, [&](const auto& option) {
    return option.letter != 0 && argument == std::string("-") + option.letter;
  });
  return found == options.end() ? nullptr : &*found;
}

const char* sanitized_program() { return std::getenv("SANITIZED_PROGRAM"); }

}  // namespace

const std::string& program_path() {
  static const std::string path =
      is_sanitized() ? sanitized_program() : TROUPE_PROGRAM;
  return path;
}

bool is_sanitized() { return sanitized_program() != nullptr; }

nlohmann::json Outcome::json() const {
  std::string text = out;
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  const std::size_t line = text.rfind('\n');
  return nlohmann::json::parse(
      line == std::string::npos ? text : text.substr(line + 1));
}

long Outcome::err_lines() const {
  return std::count(err.begin(), err.end(), '\n');
}

Program::Program(std::vector<std::string> arguments,
                 const Environment& environment)
    : Program(std::move(arguments), environment, Surroundings{}) {}

Program::Program(std::vector<std::string> arguments,
                 const Environment& environment, const Surroundings& around) {
  arguments.insert(arguments.begin(), "troupe");
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  Environment variables = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    variables.emplace_back(*entry);
  }
  std::vector<char*> envp;
  for (std::string& variable : variables) {
    envp.push_back(variable.data());
  }
  envp.push_back(nullptr);
  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(
      &actions, around.out < 0 ? out.write_end : around.out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err.write_end, STDERR_FILENO);
  if (around.in >= 0) {
    ::posix_spawn_file_actions_adddup2(&actions, around.in, STDIN_FILENO);
  }
  // The tests themselves may run under nohup or in the background of a shell.
  sigset_t heard;
  ::sigemptyset(&heard);
  std::vector<std::pair<int, sighandler_t>> before;
  for (const int number : {SIGHUP, SIGINT, SIGTERM, SIGUSR1}) {
    if (std::ranges::count(around.ignored, number) == 0) {
      ::sigaddset(&heard, number);
    } else {
      before.emplace_back(number, ::signal(number, SIG_IGN));
    }
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &heard);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  // What this process ever held would count as the program's: both share their
  // memory until it runs.
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
  const int failed = ::posix_spawn(&pid_, program_path().c_str(), &actions,
                                   &attributes, argv.data(), envp.data());
  for (const auto& [number, handler] : before) {
    ::signal(number, handler);
  }
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out.write_end);
  ::close(err.write_end);
  out_ = out.read_end;
  err_ = err.read_end;
  if (failed != 0) {
    throw std::runtime_error("cannot start " + program_path());
  }
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  ::close(err_);
}

void Program::await(const std::function<bool()>& is_so) const {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    siginfo_t ended{};
    // Left to be waited for.
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended,
                 WEXITED | WNOHANG | WNOWAIT) == 0 &&
        ended.si_pid == pid_) {
      if (is_so()) {
        return;
      }
      throw std::runtime_error("the program ended too early");
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("the program did not get that far in a minute");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Program::signal(int number) const {
  if (pid_ > 0) {  // -1 would be every process there is
    ::kill(pid_, number);
  }
}

Outcome Program::wait() {
  Outcome outcome;
  std::array<pollfd, 2> ends = {pollfd{out_, POLLIN, 0},
                                pollfd{err_, POLLIN, 0}};
  const std::array<std::string*, 2> texts = {&outcome.out, &outcome.err};
  int open = 2;
  while (open > 0) {
    ::poll(ends.data(), ends.size(), -1);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> buffer{};
      const ssize_t count = ::read(ends[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        texts[i]->append(buffer.data(), static_cast<std::size_t>(count));
      } else {
        ends[i].fd = -1;
        --open;
      }
    }
  }
  int status = 0;
  rusage usage{};
  ::wait4(pid_, &status, 0, &usage);
  pid_ = -1;
  outcome.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  outcome.exit_code = code_of(status);
  return outcome;
}

int Program::unread() const {
  int count = 0;
  ::ioctl(out_, FIONREAD, &count);
  return count;
}

int Program::wait_unread() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return code_of(status);
}

Outcome run(std::vector<std::string> arguments,
            const Program::Environment& environment) {
  return Program(std::move(arguments), environment).wait();
}

TempFolder::TempFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "troupe_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("mkdtemp");
  }
  folder_ = name;
}

TempFolder::~TempFolder() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

std::string TempFolder::path(const std::string& name) const {
  return (folder_ / name).string();
}

std::string TempFolder::write(const std::string& name,
                              const std::string& content) const {
  std::ofstream(folder_ / name, std::ios::binary) << content;
  return path(name);
}

std::string TempFolder::read(const std::string& name) const {
  std::ifstream file(folder_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> TempFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_files_of(const TempFolder& expected, const TempFolder& folder) {
  for (const std::string& name : expected.names()) {
    EXPECT_EQ(folder.read(name), expected.read(name)) << name;
  }
}

void change_recipe(const TempFolder& folder, const std::string& name,
                   const char* pointer, const nlohmann::json& value) {
  const std::string file = folder.read(name);
  actors::Image image =
      actors::decode_png(name, std::as_bytes(std::span(file)));
  auto recipe = nlohmann::json::parse(image.recipe);
  if (value.is_null()) {
    recipe.erase(std::string(pointer + 1));
  } else {
    recipe[nlohmann::json::json_pointer(pointer)] = value;
  }
  image.recipe = recipe.dump();
  const std::vector<std::byte> changed = actors::encode_png(image);
  const auto* text = reinterpret_cast<const char*>(changed.data());
  (void)folder.write(name, {text, text + changed.size()});
}

std::vector<std::string> overridden(std::vector<std::string> arguments,
                                    const std::vector<std::string>& more) {
  std::set<const config::Option*> given;
  for (const std::string& argument : more) {
    const config::Option* option = option_of(argument);
    if (option != nullptr && option->kind() != config::ValueKind::list &&
        option->kind() != config::ValueKind::texts) {
      given.insert(option);
    }
  }
  std::vector<std::string> all;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const config::Option* option = option_of(arguments[i]);
    if (given.contains(option)) {
      i += option->is_switch() ? 0 : 1;
    } else {
      all.push_back(std::move(arguments[i]));
    }
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Outcome run_in_2_gib(const std::vector<std::string>& arguments) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const rlimit lowered{rlim_t{1} << 31U, before.rlim_max};  // children get it
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &lowered), 0);
  Outcome outcome = run(arguments);
  EXPECT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  return outcome;
}

std::vector<std::string> tiny_sample(std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "sample", "--random-weights", "dit-tiny", "--steps",   "4", "--dtype",
      "f32",    "--workers",        "2",        "--threads", "1"};
  arguments = overridden(std::move(arguments), more);
  return arguments;
}

}  // namespace troupe::test
