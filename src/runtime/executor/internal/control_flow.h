// Executes While and If: a rank runs their regions within one act, as it runs programs. An
// iteration corresponds to a step of a program.
#pragma once

#include "runtime/executor/internal/bound_task.h"
#include "runtime/executor/internal/region.h"

namespace tessera {

/// Runs a While or an If.
///   running  the region that runs; nullptr at the end, and after an exception the one that threw
///   throws   RunStopped
void run_control(const BoundStep& step, Region*& running);

}  // namespace tessera
