// The cost of crashes, joins and unidentified connections for a hub:
//
//   bench_crowd crash [ROUNDS]        from kill -9 of a process to on_lost
//   bench_crowd join [PEERS]          peers that join a hub within half a
//                                     minute, and others at once
//   bench_crowd silent [CONNECTIONS]  connections that say nothing
//   bench_crowd unknown [CONNECTIONS] connections that know no key, and others
//                                     that know the listener's alone
//
// But for the first, a peer works beside all that: it sends records of 100
// bytes and waits for their echo. All is over tcp with keys.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <zmq.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

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

/// What a process holds.
struct Holdings {
  long descriptors = 0;
  long resident_kib = 0;
};

[[nodiscard]] Holdings holdings_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  Holdings it;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder + "/fd")) {
    ++it.descriptors;
  }
  std::ifstream file(folder + "/statm");
  long pages = 0;
  file >> pages >> it.resident_kib;
  it.resident_kib *= sysconf(_SC_PAGESIZE) / 1024;
  return it;
}

/// A listener and a peer that works, each in a process of its own.
class Company {
 public:
  Company() : sides_(true) {
    listener_ = start_process([&] {
      Station station(sides_.listening, true);
      endpoint_pipe_.write_line(station.hub->listen("tcp://127.0.0.1:*"));
      while (true) {
        pause();
      }
    });
    endpoint_ = endpoint_pipe_.read_line();
    worker_ = start_process([&] { work(); });
    static_cast<void>(from_worker_.read_line());  // it is up
    usleep(500'000);
    before_ = holdings_of(listener_);
  }
  ~Company() {
    end_process(worker_);
    end_process(listener_);
  }
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

  [[nodiscard]] const Sides& sides() const { return sides_; }
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }

  /// Runs `crowd` in a separate process and prints the effect on the listener
  /// and the worker.
  void measure(const std::string& name, int count,
               const std::function<void()>& crowd) {
    static_cast<void>(ask_worker());
    usleep(10'000'000);
    const std::string quiet = ask_worker();
    const TimePoint start = SteadyClock{}.now();
    const double used = processor_seconds(listener_);
    const pid_t process = start_process(crowd);
    Holdings most;
    while (waitpid(process, nullptr, WNOHANG) == 0) {
      look(most);
      usleep(10'000);
    }
    const double took = since(start);
    const double processor = processor_seconds(listener_) - used;
    const std::string busy = ask_worker();
    while (holdings_of(listener_).descriptors > before_.descriptors &&
           since(start) < took + 10) {
      usleep(10'000);
    }
    std::printf(
        "%d %s in %.1f s (all gone after %.1f s more)\n"
        "  the listener: at most %ld descriptors and %.1f MiB more, %.3f ms of "
        "CPU each\n"
        "  the worker's round trip: %s; in quiet: %s\n",
        count, name.c_str(), took, since(start) - took,
        most.descriptors - before_.descriptors,
        static_cast<double>(most.resident_kib - before_.resident_kib) / 1024,
        processor * 1e3 / count, busy.c_str(), quiet.c_str());
  }

 private:
  void look(Holdings& most) const {
    const Holdings now = holdings_of(listener_);
    most.descriptors = std::max(most.descriptors, now.descriptors);
    most.resident_kib = std::max(most.resident_kib, now.resident_kib);
  }

  /// Its round trips since it was asked last.
  [[nodiscard]] std::string ask_worker() {
    to_worker_.write_line("?");
    return from_worker_.read_line();
  }

  void work() {
    Station station(sides_.dialling);
    const PeerId peer = station.hub->dial(endpoint_, sides_.dial);
    station.handler.wait([&] { return station.handler.num_up > 0; });
    from_worker_.write_line("up");
    std::atomic<bool> is_asked = false;
    std::thread asked([&] {
      while (!to_worker_.read_line().empty()) {
        is_asked = true;
      }
    });
    std::vector<double> times;
    const SharedBytes record = share(std::string(100, 'x'));
    while (true) {
      const long before = station.handler.num_records;
      const TimePoint start = SteadyClock{}.now();
      station.hub->send(peer, record);
      station.handler.wait(
          [&] { return station.handler.num_records > before; });
      times.push_back(since(start) * 1e3);
      if (is_asked.exchange(false)) {
        char text[200];
        std::snprintf(text, sizeof(text),
                      "median %.2f ms, 99 %% %.1f ms, longest %.1f ms",
                      quantile(times, 0.5), quantile(times, 0.99),
                      quantile(times, 1));
        from_worker_.write_line(text);
        times.clear();
      }
      usleep(1000);
    }
  }

  Sides sides_;
  Pipe endpoint_pipe_;
  Pipe to_worker_;
  Pipe from_worker_;
  std::string endpoint_;
  pid_t listener_ = 0;
  pid_t worker_ = 0;
  Holdings before_;
};

/// Bare sessions, all from one hub.
void bench_join(int peers, double seconds) {
  Company company;
  company.measure("sessions joined", peers, [&] {
    Station station(company.sides().dialling);
    DialOptions dial = company.sides().dial;
    dial.deadline = std::chrono::seconds(60);
    const TimePoint start = SteadyClock{}.now();
    for (int i = 0; i < peers; ++i) {
      station.hub->dial(company.endpoint(), dial);
      usleep(static_cast<useconds_t>(seconds * 1e6 / peers));
    }
    BenchHandler& handler = station.handler;
    handler.wait([&] { return handler.num_up + handler.num_lost >= peers; });
    std::printf("%ld up and %ld lost after %.2f s\n", handler.num_up,
                handler.num_lost, since(start));
    usleep(2'000'000);
    std::printf("%ld lost after 2 s more %s\n", handler.num_lost,
                handler.lost_why.c_str());
  });
}

/// As many at once as a process may have.
void bench_silent(int connections) {
  Company company;
  const std::string& endpoint = company.endpoint();
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(
      std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  company.measure("silent connections", connections, [&] {
    for (int i = 0; i < connections; ++i) {
      const int one = socket(AF_INET, SOCK_STREAM, 0);
      if (one < 0 || connect(one, reinterpret_cast<const sockaddr*>(&to),
                             sizeof(to)) != 0) {
        std::printf("only %d\n", i);
        break;
      }
    }
    usleep(100'000);
  });
}

/// One connection with an unknown key, until it is refused. `listener`: the key
/// that the connection expects of the listener.
void try_key(void* context, const Company& company,
             std::span<const std::byte> listener) {
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const KeyPair own = make_keys().own;
  const auto set = [socket](int option, std::span<const std::byte> bytes) {
    zmq_setsockopt(socket, option, bytes.data(), bytes.size());
  };
  set(ZMQ_CURVE_SERVERKEY, listener);
  set(ZMQ_CURVE_PUBLICKEY, own.public_key);
  set(ZMQ_CURVE_SECRETKEY, own.secret.bytes());
  const int none = 0;
  zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
  const int never = 1'000'000;
  zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof(never));
  static std::atomic<int> number = 0;
  const std::string name = "inproc://monitor" + std::to_string(++number);
  zmq_socket_monitor(socket, name.c_str(),
                     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                         ZMQ_EVENT_DISCONNECTED);
  void* monitor = zmq_socket(context, ZMQ_PAIR);
  zmq_connect(monitor, name.c_str());
  zmq_connect(socket, company.endpoint().c_str());
  char event[16];
  zmq_recv(monitor, event, sizeof(event), 0);
  zmq_socket_monitor(socket, nullptr, 0);
  zmq_close(monitor);
  zmq_close(socket);
}

/// Only the company's files contain the listener's public key, so other
/// processes do not know the key.
void bench_unknown(int connections, bool knows_listener) {
  Company company;
  const KeyPair made_up = make_keys().own;
  const std::span<const std::byte> listener =
      knows_listener ? std::span<const std::byte>(*company.sides().dial.key)
                     : made_up.public_key;
  const char* what = knows_listener
                         ? "connections that know the listener's key alone"
                         : "connections that know no key";
  company.measure(what, connections, [&] {
    void* context = zmq_ctx_new();
    std::atomic<int> left = connections;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (left.fetch_sub(1) > 0) {
          try_key(context, company, listener);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  });
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
  } else if (mode == "join") {
    for (const double seconds : {60, 30, 0}) {
      bench_join(count > 0 ? count : 300, seconds);
    }
  } else if (mode == "silent") {
    bench_silent(count > 0 ? count : 10'000);
  } else if (mode == "unknown") {
    bench_unknown(count > 0 ? count : 2000, false);
    bench_unknown(count > 0 ? count : 2000, true);
  } else {
    std::fprintf(stderr, "bench_crowd crash|join|silent|unknown [COUNT]\n");
    return 2;
  }
}
