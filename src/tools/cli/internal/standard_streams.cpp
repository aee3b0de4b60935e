#include "tools/cli/internal/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <string>

#include "base/error.h"

namespace tessera {

void open_closed_streams() {
  // open() takes the lowest free number. Writing to a file that is open for reading fails.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDONLY);
}

void make_write_errors_visible() {
  std::signal(SIGXFSZ, SIG_IGN);
}

void survive_lost_reader() {
  std::signal(SIGPIPE, SIG_IGN);
}

void check_standard_output() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  const std::string why = errno ? std::string(": ") + std::strerror(errno) : "";
  std::cout.clear();
  throw UserError("standard output does not take the result",
                  "a write failed" + why +
                      "; the disk may be full, its reader may have ended, or it may be closed",
                  "send standard output to a file on a disk with free space, or to a program that "
                  "reads all of it");
}

}  // namespace tessera
