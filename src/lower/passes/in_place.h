// What is updated in place is written in place.
#pragma once

#include "lower/program.h"

namespace tessera {

/// Lets the next value of each variable take the memory of the variable where no reader of the old
/// value comes later; elsewhere appends a copy.
void update_variables_in_place(Program& program);

}  // namespace tessera
