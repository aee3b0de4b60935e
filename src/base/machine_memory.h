// The memory that this process may use.
#pragma once

#include <string>

#include "base/error.h"
#include "base/units.h"

namespace tessera {

/// The memory of this machine with its swap space, or less where the control group or the address
/// space of the process is limited. What other processes use is not subtracted.
Bytes machine_memory();

/// The fix of an allocation that failed.
inline constexpr const char* kMemoryFix =
    "give a smaller problem, such as a smaller model or batch or fewer ranks in a process, or more "
    "memory (ulimit -v shows a limit)";

/// A std::bad_alloc as it is reported.
///   where  such as "rank 2, task 'y'"; "" when it is not known
UserError out_of_memory_error(const std::string& where = "");

}  // namespace tessera
