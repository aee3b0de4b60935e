// Checks of a plan that a program made. parse_plan checks those of files as it reads.
#pragma once

#include "compiler/plan/plan.h"

namespace tessera {

///   throws  UserError (78) for a number out of its range, and for a mesh that is a null pointer
void check(const Plan& plan);

}  // namespace tessera
