#include "actors/cli/link_options.h"

#include <pwd.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>

#include "actors/cli/versions.h"
#include "actors/remote/client_service.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/keys.h"

namespace troupe::actors {
namespace {

/// fn(), whose errors are at `place`.
template <typename Fn>
auto at_place(const std::string& place, const Fn& fn) {
  try {
    return fn();
  } catch (const Error& error) {
    throw Error(error.code(), place, error.message(), error.hint());
  }
}

/// Short enough that the program exits within 5 s if no job listens.
constexpr auto kDialTime = std::chrono::seconds(3);

}  // namespace

net::HubOptions hub_options(const config::Config& config,
                            std::string_view role) {
  net::HubOptions options;
  options.role = role;
  // So that a process that stands still is noticed within a second.
  options.lease = std::chrono::milliseconds(1000);
  if (config.secret_file.empty()) {
    return options;
  }
  const bool directs = role == kCoordinatorRole || role == kOwnerRole;
  const net::Keys keys = net::read_keys(
      config.secret_file, directs ? net::Role::coordinator : net::Role::worker);
  options.keys = {directs ? *keys.coordinator : keys.worker,
                  {{keys.worker.public_key, std::string(kWorkerRole)},
                   {keys.worker.public_key, std::string(kClientRole)},
                   {keys.coordinator_key, std::string(kOwnerRole)}}};
  return options;
}

bool only_directs(const config::Config& config) {
  return !config.listen.empty() && config.num_workers == 0;
}

net::Endpoint checked_endpoint(const config::Config& config,
                               const std::string& text,
                               const std::string& place) {
  const net::Endpoint endpoint =
      at_place(place, [&] { return net::parse_endpoint(text); });
  require(!config.secret_file.empty() || !net::is_public(endpoint),
          Errc::invalid_argument, place,
          "other machines have this address, and there are no keys: got " +
              in_quotes(text),
          "give --secret-file (troupe keys new makes it), or use 127.0.0.1 or "
          "ipc:///PATH");
  return endpoint;
}

void check_listening(const config::Config& config) {
  require(config.on_class_change != config::ClassChange::wait ||
              !config.listen.empty(),
          Errc::invalid_argument, config.place_of("on-class-change"),
          "nobody can come to a job that does not listen: got wait",
          "add --listen ADDR, or give begin-anew or refuse");
  require(
      config.encode_on != config::EncodeOn::workers || !config.listen.empty(),
      Errc::invalid_argument, config.place_of("encode-on"),
      "nobody can come to a job that does not listen: got workers",
      "add --listen ADDR, or give here");
  require(!config.wait_workers || !config.listen.empty(),
          Errc::invalid_argument, config.place_of("wait-workers"),
          "nobody can come to a job that does not listen: got " +
              to_string(config.wait_workers.value_or(config::WaitWorkers{})),
          "add --listen ADDR, or leave it out");
  (void)hub_options(config, kCoordinatorRole);
  if (!config.listen.empty()) {
    const std::string place = config.place_of("listen");
    at_place(place, [&] {
      net::check_is_address(net::parse_endpoint(config.listen));
    });
    (void)checked_endpoint(config, config.listen, place);
  }
}

net::DialOptions dial_options(const config::Config& config) {
  net::DialOptions options;
  if (!config.secret_file.empty()) {
    options.key =
        net::read_keys(config.secret_file, net::Role::worker).coordinator_key;
  }
  return options;
}

std::string process_name() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + ":" + std::to_string(::getpid());
}

std::string user_name() {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  const uid_t user = ::geteuid();
  return ::getpwuid_r(user, &entry, room.data(), room.size(), &found) == 0 &&
                 found != nullptr
             ? std::string(found->pw_name)
             : std::to_string(user);
}

std::unique_ptr<JobClient> dial_job(const Invocation& invocation,
                                    std::string_view role) {
  const std::string& verb = invocation.summary.verb;
  require(!invocation.files.empty(), Errc::invalid_argument, verb,
          "missing: where the job listens",
          "troupe sample --listen ADDR says so when it begins");
  require(invocation.files.size() == 1, Errc::invalid_argument,
          invocation.files.back(), "one address is expected, and no more",
          "see troupe " + verb + " --help");
  const std::string& address = invocation.files.front();
  (void)checked_endpoint(invocation.config, address, verb);
  net::DialOptions dial = dial_options(invocation.config);
  dial.deadline = kDialTime;
  return std::make_unique<JobClient>(
      ClientSpec{.version = version(),
                 .name = process_name(),
                 .hub = hub_options(invocation.config, role),
                 .endpoint = address,
                 .place = verb,
                 .dial = dial});
}

}  // namespace troupe::actors
