// Preloaded into a program, makes each sync of a file, a folder or a file
// system take SLOW_DISK_MS milliseconds longer, and then fail with the error
// number SLOW_DISK_ERRNO: a slow or broken disk, whatever it stands on.

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

int call_slowly(const char* name, int descriptor) {
  const char* text = std::getenv("SLOW_DISK_MS");
  if (text != nullptr) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(std::strtol(text, nullptr, 10)));
  }
  if (const char* reason = std::getenv("SLOW_DISK_ERRNO")) {
    errno = static_cast<int>(std::strtol(reason, nullptr, 10));
    return -1;
  }
  return reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, name))(descriptor);
}

}  // namespace

extern "C" {

int fsync(int descriptor) { return call_slowly("fsync", descriptor); }

int fdatasync(int descriptor) { return call_slowly("fdatasync", descriptor); }

int syncfs(int descriptor) noexcept {
  return call_slowly("syncfs", descriptor);
}

}  // extern "C"
