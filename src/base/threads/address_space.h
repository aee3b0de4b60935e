// Checks of the address space before work that crashes without it.
#pragma once

#include "base/units.h"

namespace tessera {

/// Maps that number of bytes and unmaps them. A thread takes its stack, and what libraries keep for
/// each thread; they crash where they find no memory for that in the middle of their work.
///   throws   std::bad_alloc when the process may not have them: `ulimit -v` limits it
///   threads  any number; what another one takes at the same moment is not seen
void require_address_space(Bytes bytes);

/// Before a thread is started: its stack, and the same again for what it begins with.
void require_memory_for_thread();

}  // namespace tessera
