#include "actors/cli/peer_options.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "actors/cli/link_options.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "net/endpoint.h"
#include "net/keys.h"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using net::Endpoint;
using net::Transport;

constexpr std::string_view kPrefix = "troupe-peer-";
constexpr std::string_view kRandom = "XXXXXX";
constexpr std::string_view kSocket = "values";

/// -1: it is no folder, or not ours alone.
int open_ours(const fs::path& path) {
  const int folder =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status {};
  if (folder >= 0 &&
      (::fstat(folder, &status) != 0 || status.st_uid != ::geteuid() ||
       (status.st_mode & 0077U) != 0)) {
    ::close(folder);
    return -1;
  }
  return folder;
}

bool is_removed(int folder) {
  struct stat status {};
  return ::fstat(folder, &status) != 0 || status.st_nlink == 0;
}

/// The socket and its lock (net::PathLock), and then the folder. Whatever else
/// lies there is nobody's to remove, and keeps the folder.
void remove_folder(int folder, const std::string& path) {
  const std::string socket(kSocket);
  (void)::unlinkat(folder, socket.c_str(), 0);
  (void)::unlinkat(folder, (socket + ".lock").c_str(), 0);
  (void)::rmdir(path.c_str());
}

/// Of processes that were killed.
void remove_leftovers(const fs::path& among) {
  std::error_code error;
  for (fs::directory_iterator it(among, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with(kPrefix) ||
        name.size() != kPrefix.size() + kRandom.size()) {
      continue;
    }
    const int folder = open_ours(it->path());
    if (folder >= 0) {
      if (::flock(folder, LOCK_EX | LOCK_NB) == 0) {
        remove_folder(folder, it->path());
      }
      ::close(folder);
    }
  }
}

/// The interface on which other workers may dial this process, guessed from the
/// coordinator's address.
std::string default_port(const Endpoint& coordinator) {
  const bool is_v6 = coordinator.where.starts_with('[');
  if (net::is_public(coordinator)) {
    return is_v6 ? "tcp://[::]:0" : "tcp://*:0";
  }
  return is_v6 ? "tcp://[::1]:0" : "tcp://127.0.0.1:0";
}

/// Refuses an --advertise that cannot lead other workers to --bind.
void check_advertised(const config::Config& config, Transport transport) {
  const Endpoint shown = net::parse_endpoint(config.advertise);
  const bool is_any =
      shown.where == "*" || shown.where == "0.0.0.0" || shown.where == "[::]";
  if (shown.transport != transport ||
      (shown.transport == Transport::tcp && is_any)) {
    throw Error(Errc::invalid_argument, config.place_of("advertise"),
                "no other process can dial this address: got " +
                    in_quotes(config.advertise),
                "name the host and port that lead to --bind");
  }
}

}  // namespace

SocketFolder SocketFolder::make() {
  SocketFolder made;
  std::error_code error;
  const fs::path among = fs::temp_directory_path(error);
  if (error) {
    return made;
  }
  remove_leftovers(among);
  // Until it is locked it looks left over: another process may remove it.
  constexpr int kTries = 10;
  for (int i = 0; i < kTries && made.folder_ < 0; ++i) {
    std::string path = among / (std::string(kPrefix) + std::string(kRandom));
    if (::mkdtemp(path.data()) == nullptr) {
      return made;
    }
    const int folder = open_ours(path);
    // A file system without such locks has no leftovers removed, either.
    const bool is_locked =
        ::flock(folder, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (folder >= 0 && is_locked && !is_removed(folder)) {
      made.folder_ = folder;
      made.path_ = std::move(path);
    } else if (folder >= 0) {
      ::close(folder);
    }
  }
  return made;
}

SocketFolder::SocketFolder(SocketFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      folder_(std::exchange(other.folder_, -1)) {}

SocketFolder& SocketFolder::operator=(SocketFolder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(folder_, other.folder_);
  return *this;
}

SocketFolder::~SocketFolder() {
  if (folder_ >= 0) {
    remove_folder(folder_, path_);
    ::close(folder_);
  }
}

std::string SocketFolder::endpoint() const {
  return "ipc://" + path_ + "/" + std::string(kSocket);
}

void check_peers(const config::Config& config) {
  if (config.no_peer) {
    require(config.bind.empty() && config.advertise.empty(),
            Errc::invalid_argument, config.place_of("no-peer"),
            "excludes --bind and --advertise: it listens for nobody");
    return;
  }
  const Endpoint coordinator = net::parse_endpoint(config.join);
  Transport transport = coordinator.transport;
  for (const auto& [key, text] :
       {std::pair{"bind", &config.bind}, {"advertise", &config.advertise}}) {
    if (!text->empty()) {
      (void)checked_endpoint(config, *text, config.place_of(key));
    }
  }
  if (!config.bind.empty()) {
    transport = net::parse_endpoint(config.bind).transport;
  }
  if (!config.advertise.empty()) {
    check_advertised(config, transport);
  }
}

PeerPlace::PeerPlace(const config::Config& config) {
  check_peers(config);
  if (config.no_peer) {
    return;
  }
  spec_.emplace();
  spec_->bind = config.bind;
  spec_->place = config.place_of("bind");
  spec_->advertise = config.advertise;
  if (!config.secret_file.empty()) {
    spec_->key =
        net::read_keys(config.secret_file, net::Role::worker).worker.public_key;
  }
  if (config.bind.empty()) {
    const Endpoint coordinator = net::parse_endpoint(config.join);
    spec_->may_fail = true;
    if (coordinator.transport == Transport::ipc) {
      folder_ = SocketFolder::make();
      spec_->bind = folder_.path().empty() ? "" : folder_.endpoint();
    } else if (spec_->key || !net::is_public(coordinator)) {
      spec_->bind = default_port(coordinator);
    }
  }
}

}  // namespace troupe::actors
