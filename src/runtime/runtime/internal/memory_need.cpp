#include "runtime/runtime/internal/memory_need.h"

#include "base/error.h"
#include "base/machine_memory.h"
#include "base/text/count_text.h"

namespace tessera {

void refuse_memory(const MemoryNeed& need) {
  throw UserError("the program does not fit into the memory of this machine",
                  counted(need.ranks, "rank") + " of this process: " + to_text(need.variables) +
                      " of variables and " + to_text(need.arenas) +
                      " of activations; the machine has " + to_text(machine_memory()),
                  "use a smaller batch, a plan that divides more, or more machines",
                  ExitCode::kOutOfMemory);
}

}  // namespace tessera
