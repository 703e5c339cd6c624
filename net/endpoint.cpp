#include "net/endpoint.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <variant>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::net {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why,
                         std::string_view hint =
                             "endpoints look like tcp://127.0.0.1:7010 or "
                             "ipc:///run/user/1000/troupe/a") {
  throw Error(Errc::invalid_argument, kLinkPlace,
              "the endpoint " + in_quotes(text) + " " + why, hint);
}

/// Makes the folder and its missing parents with mode 0700.
void make_folders(const std::filesystem::path& folder) {
  const auto make = [&] {
    return mkdir(folder.c_str(), 0700) == 0 ? 0 : errno;
  };
  int reason = make();
  if (reason == ENOENT && folder.has_relative_path()) {
    make_folders(folder.parent_path());
    reason = make();
  }
  if (reason != 0 && reason != EEXIST) {
    throw Error(Errc::io, kLinkPlace,
                "the folder " + in_quotes(folder.string()) +
                    " cannot be made: " + std::strerror(reason));
  }
}

std::string lock_of(const std::string& socket) { return socket + ".lock"; }

[[nodiscard]] bool is_port(std::string_view port) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return port == "*" || (!port.empty() && port.size() <= 5 &&
                         std::ranges::all_of(port, is_digit) &&
                         std::stoi(std::string(port)) <= 65535);
}

[[nodiscard]] bool is_host(std::string_view host) {
  const auto is_fine = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || std::strchr(".-_*[]:%", c) != nullptr;
  };
  return !host.empty() && host.size() <= 255 &&
         std::ranges::all_of(host, is_fine);
}

}  // namespace

Endpoint parse_endpoint(std::string_view text) {
  const auto rest_of = [&](std::string_view scheme) {
    return text.starts_with(scheme) ? text.substr(scheme.size())
                                    : std::string_view{};
  };
  if (const auto rest = rest_of("tcp://"); !rest.empty()) {
    const std::size_t colon = rest.rfind(':');
    if (colon == std::string_view::npos || !is_port(rest.substr(colon + 1)) ||
        !is_host(rest.substr(0, colon))) {
      refuse(text, "has no host and port");
    }
    std::string host(rest.substr(0, colon));
    std::string port(rest.substr(colon + 1));
    if (host == "localhost") {
      host = "127.0.0.1";  // ZeroMQ listens at no names
    }
    if (port == "0") {
      port = "*";
    }
    return {Transport::tcp, "tcp://" + host + ":" + port, host, port};
  }
  if (const auto rest = rest_of("ipc://"); !rest.empty()) {
    if (rest.front() != '/' || rest.size() >= sizeof(sockaddr_un{}.sun_path) ||
        printable(rest, rest.size()) != rest) {
      refuse(text, "is no absolute path of at most 107 characters");
    }
    return {Transport::ipc, std::string(text), std::string(rest), {}};
  }
  if (const auto rest = rest_of("inproc://"); !rest.empty()) {
    if (rest.size() > 200 || printable(rest, rest.size()) != rest ||
        rest.starts_with("zeromq.")) {
      refuse(text, "is no name of at most 200 characters");
    }
    return {Transport::inproc, std::string(text), std::string(rest), {}};
  }
  refuse(text, "begins with neither tcp:// nor ipc:// nor inproc://");
}

namespace {

bool is_loopback(const std::string& host) {
  in_addr address{};
  return host == "[::1]" || (inet_pton(AF_INET, host.c_str(), &address) == 1 &&
                             ntohl(address.s_addr) >> 24U == 127U);
}

/// Whether the host of a tcp endpoint is a name, which the system looks up.
bool is_host_name(const Endpoint& endpoint) {
  in_addr address{};
  return endpoint.transport == Transport::tcp &&
         !endpoint.where.starts_with('[') &&
         inet_pton(AF_INET, endpoint.where.c_str(), &address) != 1;
}

/// The first address of a name, in network order, or the error of getaddrinfo.
std::variant<in_addr, int> looked_up(const std::string& name) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;  // ZeroMQ looks for no other
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &wanted, &found);
  if (error != 0) {
    return error;
  }
  sockaddr_in first{};
  std::memcpy(&first, found->ai_addr, sizeof first);
  freeaddrinfo(found);
  return first.sin_addr;
}

}  // namespace

bool is_public(const Endpoint& endpoint) {
  return endpoint.transport == Transport::tcp && !is_loopback(endpoint.where);
}

void check_host(const Endpoint& endpoint) {
  if (!is_host_name(endpoint)) {
    return;
  }
  const auto found = looked_up(endpoint.where);
  const int* error = std::get_if<int>(&found);
  // Nobody answered just now: that says nothing of the name. The dial finds
  // out.
  if (error == nullptr || *error == EAI_AGAIN) {
    return;
  }
  throw Error(Errc::unreachable, kLinkPlace,
              "the host name " + in_quotes(endpoint.where) +
                  " is not known here (" + gai_strerror(*error) + ")",
              "look whether it is spelt right, or give the host's address");
}

void check_is_address(const Endpoint& endpoint) {
  // "*" stands for all of them.
  if (!is_host_name(endpoint) || endpoint.where == "*" ||
      if_nametoindex(endpoint.where.c_str()) != 0) {
    return;
  }
  const auto found = looked_up(endpoint.where);
  const in_addr* address = std::get_if<in_addr>(&found);
  std::array<char, INET_ADDRSTRLEN> text{};
  if (address != nullptr) {
    inet_ntop(AF_INET, address, text.data(), text.size());
  }
  const std::string got = text.data();
  throw Error(
      Errc::invalid_argument, kLinkPlace,
      "a process listens at an address, not at a host name: got " +
          in_quotes(endpoint.where) +
          (got.empty() ? ", which is not known here" : ", which is " + got),
      got.empty() ? "hostname -I lists this machine's addresses"
      : is_loopback(got)
          ? "give " + got +
                " for workers on this machine alone, or one of the addresses "
                "that hostname -I lists"
          : "give " + got);
}

void prepare_folder(const Endpoint& endpoint) {
  const std::string folder =
      std::filesystem::path(endpoint.where).parent_path();
  make_folders(folder);
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    refuse(endpoint.text, "is not in a folder");
  }
  if (status.st_uid != geteuid() || (status.st_mode & 0077U) != 0) {
    refuse(endpoint.text,
           "is in a folder that others may enter; it must be ours, mode 0700",
           "name a folder that is not there: it is made so");
  }
}

PathLock::PathLock(const Endpoint& endpoint) : socket_(endpoint.where) {
  const std::string path = lock_of(socket_);
  while (file_ < 0) {
    file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ < 0) {
      throw Error(Errc::io, kLinkPlace,
                  in_quotes(path) + " cannot be made: " + std::strerror(errno));
    }
    if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
      close(std::exchange(file_, -1));
      throw Error(Errc::io, kLinkPlace,
                  "another process listens at " + in_quotes(endpoint.text));
    }
    if (!is_in_place()) {  // its last owner has removed it meanwhile
      close(std::exchange(file_, -1));
    }
  }
  struct stat status {};
  if (lstat(socket_.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
    unlink(path.c_str());
    close(std::exchange(file_, -1));
    refuse(endpoint.text, "is a file that is there, and no socket",
           "name a path where nothing is");
  }
}

PathLock::PathLock(PathLock&& other) noexcept
    : socket_(std::exchange(other.socket_, {})),
      file_(std::exchange(other.file_, -1)) {}

PathLock& PathLock::operator=(PathLock&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(file_, other.file_);
  return *this;
}

/// Whether the lock's path still leads to the file that this object has locked.
/// Then no other process listens at the endpoint.
bool PathLock::is_in_place() const {
  struct stat held {};
  struct stat named {};
  return fstat(file_, &held) == 0 &&
         lstat(lock_of(socket_).c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

PathLock::~PathLock() {
  if (file_ < 0) {
    return;
  }
  if (is_in_place()) {
    unlink(socket_.c_str());
    unlink(lock_of(socket_).c_str());  // last: until then the path is ours
  }
  close(file_);
}

}  // namespace troupe::net
