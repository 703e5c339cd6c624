#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <system_error>
#include <thread>

namespace troupe {

/// For a child process, which ends afterwards: limits the process to `count`
/// threads, the main thread included. A process of root becomes a user without
/// other processes; another user's processes count too, so that fewer may be
/// left. Returns whether the limit holds.
inline bool limit_threads(::rlim_t count) {
  constexpr ::uid_t kUnused = 20000;
  constexpr ::uid_t kRange = 30000;
  const auto user = kUnused + static_cast<::uid_t>(::getpid()) % kRange;
  if (::geteuid() == 0 && ::setuid(user) != 0) {
    return false;
  }
  const struct rlimit limit { count, count };
  return ::setrlimit(RLIMIT_NPROC, &limit) == 0;
}

/// Whether this system refuses threads at all.
inline bool threads_can_be_limited() {
  const ::pid_t child = ::fork();
  if (child == 0) {
    if (!limit_threads(0)) {
      ::_exit(1);
    }
    try {
      std::thread([] {}).join();
    } catch (const std::system_error&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace troupe
