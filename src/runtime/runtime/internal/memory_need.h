// The memory that a program needs, compared with that of the machine before it is allocated: Linux
// gives a process more memory than there is, and kills it when it uses that.
#pragma once

#include "base/units.h"

namespace tessera {

/// What the ranks of this process allocate for a program.
struct MemoryNeed {
  int ranks = 0;
  Bytes variables, arenas;

  Bytes all() const { return variables + arenas; }
};

///   throws  UserError (4)
[[noreturn]] void refuse_memory(const MemoryNeed& need);

}  // namespace tessera
