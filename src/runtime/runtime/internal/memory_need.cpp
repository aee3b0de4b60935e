#include "runtime/runtime/internal/memory_need.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/text/count_text.h"

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
  return Bytes(largest);
}

void refuse_memory(const MemoryNeed& need) {
  throw UserError("the program does not fit into the memory of this machine",
                  counted(need.ranks, "rank") + " of this process: " + to_text(need.variables) +
                      " of variables and " + to_text(need.arenas) +
                      " of activations; the machine has " + to_text(machine_memory()),
                  "use a smaller batch, a plan that divides more, or more machines",
                  ExitCode::kOutOfMemory);
}

}  // namespace tessera
