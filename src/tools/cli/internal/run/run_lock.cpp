#include "tools/cli/internal/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr auto kWaitForItsEnd = std::chrono::seconds(2);
constexpr auto kInterval = std::chrono::milliseconds(50);

[[noreturn]] void cannot_write(const fs::path& path, const std::string& why) {
  throw UserError("cannot write '" + path.string() + "'", why,
                  "check that the folder may be written and that the disk has free space, or "
                  "choose another --out");
}

/// Tries for some time. Returns 0, or the error.
int try_lock(int file) {
  const auto end = std::chrono::steady_clock::now() + kWaitForItsEnd;
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() > end) return errno;
    std::this_thread::sleep_for(kInterval);
  }
  return 0;
}

/// "process 123 on host a".
std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(::getpid()) + " on host " + host.data();
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) cannot_write(folder, error.message());
  const fs::path path = folder / "lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file_ < 0) cannot_write(path, std::strerror(errno));
  const int failure = try_lock(file_);
  if (failure == EWOULDBLOCK) {
    ::close(file_);
    throw UserError("'" + folder.string() + "' is in use by another run",
                    read_own_file(path) + " holds its lock, the file 'lock' in it",
                    "wait for the end of that run or end it, or choose another --out",
                    ExitCode::kUsage);
  }
  if (failure != 0) {
    log_warning("'" + path.string() + "' cannot be locked (" + std::strerror(failure) +
                "): do not start a second run with this --out");
    return;
  }
  const std::string text = this_process();
  if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, text.data(), text.size(), 0) < 0)
    log_warning("the name of this process is not in '" + path.string() +
                "': " + std::strerror(errno));
}

RunLock::~RunLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace tessera
