// What must hold of a program between any two passes.
#pragma once

#include <string_view>

#include "compiler/lower/internal/program.h"

namespace tessera {

/// Checks what every pass must leave, in each micro-batch: each register that an instruction reads
/// is fed, is a variable, or was written before; each register has one writer; source and target of
/// an exchange have its placements; issue points come before their exchanges.
///   throws  InternalError that names the pass and the first offence
///   time    O(instances)
void verify(const Program& program, std::string_view pass);

}  // namespace tessera
