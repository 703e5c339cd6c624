// What a link carries: bench_link [SECONDS [TRANSPORT]]
//
// A holder and an asker in two processes, as on two hosts. Figures are medians
// or totals over SECONDS (default 2) for each of ipc and tcp over loopback,
// without and with keys.

#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "net/link.h"
#include "tests/net/bench_support.h"
#include "tests/net/link_keys.h"

namespace troupe::net {
namespace {

/// Gives values of 2 MiB and 16 KiB, and sends records back.
class Holder final : public LinkHandler {
 public:
  void on_greeting(PeerId peer, const Greeting&) override {
    hub->accept(peer, "");
  }
  void on_up(PeerId, const Greeting&) override {}
  void on_record(PeerId peer, std::span<const std::byte> record) override {
    const std::string text(reinterpret_cast<const char*>(record.data()),
                           record.size());
    if (text[0] == 'e') {
      hub->send(peer, share(text));
    }
  }
  void on_room(PeerId) override {}
  void on_wanted(PeerId, WantId want, std::string_view key) override {
    hub->give(want, {key == "large" ? large_ : small_});
  }
  void on_lost(PeerId, const Loss&) override { std::_Exit(0); }

  Hub* hub = nullptr;

 private:
  SharedBytes large_ = share(std::string(std::size_t{2} << 20U, 'v'));
  SharedBytes small_ = share(std::string(std::size_t{16} << 10U, 'v'));
};

class Asker final : public LinkHandler {
 public:
  void on_greeting(PeerId, const Greeting&) override {}
  void on_up(PeerId, const Greeting&) override {
    note([&] { ++num_up; });
  }
  void on_record(PeerId, std::span<const std::byte>) override {
    note([&] { ++num_records; });
  }
  void on_room(PeerId) override {
    note([&] { ++num_rooms; });
  }
  void on_wanted(PeerId, WantId, std::string_view) override {}
  void on_lost(PeerId, const Loss& loss) override {
    if (loss.cause == LossCause::refused) {
      note([&] { ++num_refused; });
      return;
    }
    std::fprintf(stderr, "lost: %s\n", loss.what.c_str());
    std::_Exit(1);
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

  long num_up = 0;
  long num_records = 0;
  long num_rooms = 0;
  long num_refused = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Bytes per second of values of 2 MiB, several asked for at once.
[[nodiscard]] double value_rate(Hub& hub, PeerId peer, Asker& asker,
                                double seconds, pid_t holder,
                                double* processor) {
  const auto used = [holder] {
    return processor_seconds(holder) + processor_seconds(getpid());
  };
  const TimePoint start = SteadyClock{}.now();
  const double before = used();
  long asked = 0;
  long got = 0;
  long bytes = 0;
  const FetchTaker taker = [&](Fetched fetched) {
    asker.note([&] {
      ++got;
      bytes += fetched.status == FetchStatus::found
                   ? static_cast<long>(fetched.value[0].size)
                   : 0;
    });
  };
  while (since(start) < seconds) {
    hub.fetch(peer, "large", {}, taker);
    ++asked;
    asker.wait([&] { return asked - got < 4; });
  }
  asker.wait([&] { return asked == got; });
  const double took = since(start);
  *processor = (used() - before) / static_cast<double>(bytes) * 1e9;
  return static_cast<double>(bytes) / took;
}

/// Seconds of one round trip: the median.
[[nodiscard]] double round_trip(double seconds,
                                const std::function<void()>& go) {
  std::vector<double> times;
  for (const TimePoint start = SteadyClock{}.now(); since(start) < seconds;) {
    const TimePoint begin = SteadyClock{}.now();
    go();
    times.push_back(since(begin));
  }
  std::ranges::nth_element(
      times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

/// Records of 100 bytes per second, one way.
[[nodiscard]] double record_rate(Hub& hub, PeerId peer, Asker& asker,
                                 double seconds) {
  const SharedBytes record = share(std::string(100, 'x'));
  const TimePoint start = SteadyClock{}.now();
  long sent = 0;
  while (since(start) < seconds) {
    const long rooms = asker.num_rooms;
    if (hub.send(peer, record) == SendResult::queued) {
      ++sent;
    } else {
      asker.wait([&] { return asker.num_rooms > rooms; });
    }
  }
  // Records keep their order: when the echo of this record is back, all earlier
  // records have arrived.
  const long before = asker.num_records;
  while (hub.send(peer, share(std::string("e"))) != SendResult::queued) {
    usleep(100);
  }
  asker.wait([&] { return asker.num_records > before; });
  return static_cast<double>(sent) / since(start);
}

[[noreturn]] void run_holder(HubOptions options, const std::string& endpoint,
                             int to) {
  Holder holder;
  const auto hub = make_hub(std::move(options), holder);
  holder.hub = hub.get();
  const std::string bound = hub->listen(endpoint) + "\n";
  if (write(to, bound.data(), bound.size()) < 0) {
    std::_Exit(1);
  }
  while (true) {
    pause();
  }
}

/// Processor seconds that a connection with an unknown key costs the holder.
[[nodiscard]] double refusal_cost(const DialOptions& dial,
                                  const std::string& endpoint, pid_t holder) {
  Asker stranger;
  const auto hub = make_hub({.role = "asker", .keys = make_keys()}, stranger);
  constexpr int kDials = 300;
  const double before = processor_seconds(holder);
  for (int i = 0; i < kDials; ++i) {
    hub->dial(endpoint, dial);
    stranger.wait([&] { return stranger.num_refused > i; });
  }
  usleep(100'000);
  return (processor_seconds(holder) - before) / (3 * kDials);
}

void run_asker(HubOptions options, DialOptions dial,
               const std::string& endpoint, const std::string& name,
               double seconds, pid_t holder) {
  const bool dial_has_key = dial.key.has_value();
  const double stranger =
      dial_has_key ? refusal_cost(dial, endpoint, holder) : 0;
  Asker asker;
  const auto hub = make_hub(std::move(options), asker);
  const PeerId peer = hub->dial(endpoint, std::move(dial));
  asker.wait([&] { return asker.num_up > 0; });
  double processor = 0;
  const double rate =
      value_rate(*hub, peer, asker, seconds, holder, &processor);
  const auto echo = [&](std::size_t size) {
    const SharedBytes record = share("e" + std::string(size - 1, 'x'));
    return round_trip(seconds, [&] {
      const long before = asker.num_records;
      hub->send(peer, record);
      asker.wait([&] { return asker.num_records > before; });
    });
  };
  const double small_echo = echo(100);
  const double large_echo = echo(std::size_t{16} << 10U);
  long got = 0;
  const double small_value = round_trip(seconds, [&] {
    const long before = got;
    hub->fetch(peer, "small", {}, [&](Fetched) { asker.note([&] { ++got; }); });
    asker.wait([&] { return got > before; });
  });
  const double records = record_rate(*hub, peer, asker, seconds);
  std::printf(
      "%-9s %8.2f GB/s %5.2f ns/B %10.1f us %10.1f us %10.1f us %12.0f/s",
      name.c_str(), rate / 1e9, processor, large_echo / 2 * 1e6,
      small_value * 1e6, small_echo * 1e6, records);
  std::printf(dial_has_key ? " %8.3f ms\n" : "\n", stranger * 1e3);
}

void bench(const std::string& transport, bool has_keys, double seconds) {
  HubOptions listening{.role = "holder"};
  HubOptions dialling{.role = "asker"};
  DialOptions dial;
  if (has_keys) {
    listening.keys = make_keys();
    dialling.keys = make_keys();
    listening.keys->allowed.push_back({dialling.keys->own.public_key, "asker"});
    dial.key = listening.keys->own.public_key;
  }
  std::string folder = "/tmp/troupe-bench-XXXXXX";
  mkdtemp(folder.data());
  const std::string endpoint =
      transport == "ipc" ? "ipc://" + folder + "/a" : "tcp://127.0.0.1:*";
  int ends[2];
  if (pipe(ends) != 0) {
    std::abort();
  }
  const pid_t holder = fork();
  if (holder == 0) {
    run_holder(listening, endpoint, ends[1]);
  }
  const pid_t asker = fork();
  if (asker == 0) {
    std::string bound;
    for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) {
      bound += c;
    }
    run_asker(dialling, dial, bound, transport + (has_keys ? "+keys" : ""),
              seconds, holder);
    std::_Exit(0);
  }
  waitpid(asker, nullptr, 0);
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe::net

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IONBF, 0);  // two processes write it
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  std::printf("%-9s %13s %10s %13s %13s %13s %14s %11s\n", "", "2 MiB values",
              "both CPU", "16 KiB 1 way", "16 KiB value", "100 B echo",
              "100 B records", "unknown key");
  for (const char* transport : {"ipc", "tcp"}) {
    for (const bool has_keys : {false, true}) {
      if (argc < 3 || std::string(argv[2]) == transport) {
        troupe::net::bench(transport, has_keys, seconds);
      }
    }
  }
}
