#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/link.h"

// What the benchmarks of links share.

namespace troupe::net {

using Seconds = std::chrono::duration<double>;

[[nodiscard]] inline double since(TimePoint start) {
  return Seconds(SteadyClock{}.now() - start).count();
}

/// Of the system and of the process, in all its threads.
[[nodiscard]] inline double processor_seconds(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  double ticks = 0;
  for (int field = 1; field <= 15 && file >> word; ++field) {
    ticks += field >= 14 ? std::stod(word) : 0;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

[[nodiscard]] inline double quantile(std::vector<double> values, double part) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::sort(values);
  return values[std::min(
      values.size() - 1,
      static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

/// Lets everybody in, echoes records and counts.
class BenchHandler final : public LinkHandler {
 public:
  explicit BenchHandler(bool echoes = false) : echoes_(echoes) {}

  void on_greeting(PeerId peer, const Greeting&) override {
    hub->accept(peer, "");
  }
  void on_up(PeerId, const Greeting&) override {
    note([&] { ++num_up; });
  }
  void on_record(PeerId peer, std::span<const std::byte> record) override {
    if (echoes_) {
      hub->send(peer,
                share(std::string(reinterpret_cast<const char*>(record.data()),
                                  record.size())));
    }
    note([&] { ++num_records; });
  }
  void on_room(PeerId) override {}
  void on_wanted(PeerId, WantId want, std::string_view) override {
    hub->give_nothing(want);
  }
  void on_lost(PeerId, const Loss& loss) override {
    const TimePoint now = SteadyClock{}.now();
    note([&] {
      ++num_lost;
      lost_at = now;
      lost_why = loss.what;
    });
  }

  template <typename Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  void wait(const Condition& holds) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, holds);
  }

  Hub* hub = nullptr;
  long num_up = 0;
  long num_records = 0;
  long num_lost = 0;
  TimePoint lost_at;
  std::string lost_why;

 private:
  bool echoes_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Bytes from one process to another.
class Pipe {
 public:
  Pipe() {
    if (pipe(ends_) != 0) {
      std::abort();
    }
  }
  ~Pipe() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void write_line(const std::string& line) const {
    const std::string text = line + "\n";
    if (write(ends_[1], text.data(), text.size()) < 0) {
      std::_Exit(1);
    }
  }
  [[nodiscard]] std::string read_line() const {
    std::string line;
    for (char c = 0; read(ends_[0], &c, 1) == 1 && c != '\n';) {
      line += c;
    }
    return line;
  }

 private:
  int ends_[2] = {-1, -1};
};

/// A folder for local sockets, removed at the end.
class BenchFolder {
 public:
  BenchFolder() {
    std::string name = "/tmp/troupe-bench-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~BenchFolder() { std::filesystem::remove_all(path_); }
  BenchFolder(const BenchFolder&) = delete;
  BenchFolder& operator=(const BenchFolder&) = delete;
  [[nodiscard]] std::string endpoint(const std::string& transport) const {
    return transport == "ipc" ? "ipc://" + path_ + "/a" : "tcp://127.0.0.1:*";
  }

 private:
  std::string path_;
};

}  // namespace troupe::net
