// While and If: a rank runs their regions within one act, as it runs programs. An iteration is to a
// loop what a step is to a program.
#pragma once

#include "executor/bound_task.h"
#include "executor/region.h"

namespace tessera {

/// Runs a While or an If.
///   running  the region that runs; nullptr at the end. After an exception it is the one that threw
///   throws   RunStopped
void run_control(const BoundStep& step, Region*& running);

}  // namespace tessera
