#include "base/machine_memory.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

namespace tessera {

Bytes machine_memory() {
  struct sysinfo machine = {};
  sysinfo(&machine);
  const auto unit = static_cast<int64_t>(machine.mem_unit);
  int64_t largest = (static_cast<int64_t>(machine.totalram + machine.totalswap)) * unit;
  // Of version 2 and of version 1; without a limit the file says "max", has a huge number or is
  // absent.
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(limit);
    if (int64_t bytes = 0; file >> bytes && bytes > 0) largest = std::min(largest, bytes);
  }
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    largest = std::min(largest, static_cast<int64_t>(space.rlim_cur));
  return Bytes(largest);
}

UserError out_of_memory_error(const std::string& where) {
  return {"there is not enough memory",
          "an allocation failed" + (where.empty() ? "" : " (" + where + ")"), kMemoryFix,
          ExitCode::kOutOfMemory};
}

}  // namespace tessera
