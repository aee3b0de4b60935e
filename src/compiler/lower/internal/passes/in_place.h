// Variables that are updated in place.
#pragma once

#include "compiler/lower/internal/program.h"

namespace tessera {

/// Writes the next value of each variable to the memory of the variable where no reader of the old
/// value comes later; otherwise appends a copy.
void update_variables_in_place(Program& program);

}  // namespace tessera
