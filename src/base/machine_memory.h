// The memory that this process may use.
#pragma once

#include "base/units.h"

namespace tessera {

/// The memory of this machine with its swap space, or less where the control group or the address
/// space of the process is limited. What other processes use is not subtracted.
Bytes machine_memory();

}  // namespace tessera
