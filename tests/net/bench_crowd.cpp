// What crashes, crowds and strangers do to a hub:
//
//   bench_crowd crash [ROUNDS]    from kill -9 of a process to on_lost

#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <memory>

#include "tests/net/bench_support.h"
#include "tests/net/link_keys.h"

namespace troupe::net {
namespace {

/// Two sides of a link that know each other's keys, or have none.
struct Sides {
  HubOptions listening{.role = "coordinator"};
  HubOptions dialling{.role = "worker"};
  DialOptions dial;

  explicit Sides(bool have_keys) {
    if (have_keys) {
      listening.keys = make_keys();
      dialling.keys = make_keys();
      listening.keys->allowed.push_back(
          {dialling.keys->own.public_key, dialling.role});
      dial.key = listening.keys->own.public_key;
    }
  }
};

/// A process of its own that runs `run`; it must not return to its caller.
[[nodiscard]] pid_t start_process(const std::function<void()>& run) {
  const pid_t process = fork();
  if (process == 0) {
    run();
    std::_Exit(0);
  }
  return process;
}

void end_process(pid_t process) {
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

/// A hub and its handler.
struct Station {
  explicit Station(const HubOptions& options, bool echoes = false)
      : handler(echoes), hub(make_hub(options, handler)) {
    handler.hub = hub.get();
  }
  BenchHandler handler;
  std::unique_ptr<Hub> hub;
};

/// Seconds from the kill to on_lost at the other side, once.
[[nodiscard]] double one_crash(const Sides& sides, const std::string& transport,
                               bool listener_dies) {
  const BenchFolder folder;
  const Pipe endpoint;
  const Pipe result;
  const auto listen = [&](Station& station) {
    endpoint.write_line(station.hub->listen(folder.endpoint(transport)));
  };
  const auto dial = [&](Station& station) {
    station.hub->dial(endpoint.read_line(), sides.dial);
  };
  const pid_t victim = start_process([&] {
    Station station(listener_dies ? sides.listening : sides.dialling);
    listener_dies ? listen(station) : dial(station);
    while (true) {
      pause();
    }
  });
  const pid_t witness = start_process([&] {
    Station station(listener_dies ? sides.dialling : sides.listening);
    listener_dies ? dial(station) : listen(station);
    station.handler.wait([&] { return station.handler.num_up > 0; });
    usleep(300'000);
    const TimePoint killed = SteadyClock{}.now();
    kill(victim, SIGKILL);
    station.handler.wait([&] { return station.handler.num_lost > 0; });
    result.write_line(
        std::to_string(Seconds(station.handler.lost_at - killed).count()));
  });
  const double took = std::stod(result.read_line());
  end_process(victim);
  waitpid(witness, nullptr, 0);
  return took;
}

void bench_crashes(int rounds) {
  std::printf("%-9s %-12s %12s %12s %12s\n", "", "killed", "median", "90 %",
              "most");
  for (const char* transport : {"ipc", "tcp"}) {
    for (const bool has_keys : {false, true}) {
      for (const bool listener_dies : {false, true}) {
        const Sides sides(has_keys);
        std::vector<double> times;
        for (int i = 0; i < rounds; ++i) {
          times.push_back(one_crash(sides, transport, listener_dies));
        }
        std::printf("%-9s %-12s %9.1f ms %9.1f ms %9.1f ms\n",
                    (transport + std::string(has_keys ? "+keys" : "")).c_str(),
                    listener_dies ? "listener" : "dialler",
                    quantile(times, 0.5) * 1e3, quantile(times, 0.9) * 1e3,
                    quantile(times, 1) * 1e3);
      }
    }
  }
}

}  // namespace
}  // namespace troupe::net

int main(int argc, char** argv) {
  using namespace troupe::net;
  setvbuf(stdout, nullptr, _IONBF, 0);  // several processes write it
  const std::string mode = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (mode == "crash") {
    bench_crashes(count > 0 ? count : 50);
  } else {
    std::fprintf(stderr, "bench_crowd crash [ROUNDS]\n");
    return 2;
  }
}
