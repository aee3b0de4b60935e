#include "training/fit/internal/process_info.h"

#include <unistd.h>

#include <array>
#include <chrono>

namespace tessera {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data()
                                                                           : "unknown";
}

int64_t process_id() {
  return getpid();
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
