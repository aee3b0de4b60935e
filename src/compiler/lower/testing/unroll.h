// Unrolling: from a rolled program to one with instructions and registers of each micro-batch. It
// is the reference of what the instances of a rolled program mean.
#pragma once

#include "compiler/lower/internal/program.h"

namespace tessera {

/// The program with its instances (compiler/lower/internal/instances.h) as instructions, in their
/// order. The order of the result says the passes and the issue points.
///
///   ensures   names have the numbers of micro-batches, and kernels their integers; registers have
///             the offsets of the program; the sum over micro-batches is a register for each of
///             them ("dw.sum #1", ..., "dw"), since each register has one writer. The registers of
///             an op come before those of the next one, and those of its first micro-batch before
///             those of the next one; those that were added after partition follow. The same
///             inputs give the same result
///   time      O(instances + registers)
Program unroll(Program program);

}  // namespace tessera
