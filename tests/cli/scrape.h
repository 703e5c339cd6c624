#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <map>
#include <sstream>
#include <string>

namespace troupe::test {

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// A port of the loopback that nobody listens at just now.
inline int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  (void)::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

/// A port of the loopback that is taken. Who connects there is not answered, as
/// by a process that is stopped.
class SilentPort {
 public:
  SilentPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof(address);
    (void)::bind(socket_, reinterpret_cast<sockaddr*>(&address), size);
    (void)::listen(socket_, 64);
    (void)::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    number_ = std::to_string(ntohs(address.sin_port));
  }
  ~SilentPort() { ::close(socket_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  [[nodiscard]] const std::string& number() const { return number_; }
  [[nodiscard]] std::string endpoint() const {
    return "tcp://127.0.0.1:" + number_;
  }

 private:
  int socket_;
  std::string number_;
};

/// What http://127.0.0.1:PORT/metrics says, with the head of the answer; empty:
/// nobody answers.
inline std::string scrape(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(port);
  std::string text;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) == 0) {
    const std::string asks =
        "GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    (void)::send(socket, asks.data(), asks.size(), MSG_NOSIGNAL);
    std::array<char, 4096> piece{};
    for (ssize_t got = 0;
         (got = ::recv(socket, piece.data(), piece.size(), 0)) > 0;) {
      text.append(piece.data(), static_cast<std::size_t>(got));
    }
  }
  ::close(socket);
  return text;
}

/// Values by name and labels, as they are written: `a{b="c"}`.
inline std::map<std::string, double> figures_of(const std::string& text) {
  std::map<std::string, double> figures;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.starts_with("troupe_") && space != std::string::npos) {
      figures[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
  }
  return figures;
}

}  // namespace troupe::test
