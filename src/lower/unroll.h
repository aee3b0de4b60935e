// Unrolling: from a rolled program to one with instructions and registers of each micro-batch.
#pragma once

#include "lower/program.h"

namespace tessera {

/// Is `reg` a value of the whole step that an op computes in each micro-batch, such as the number
/// of iterations of a While? All its readers read that of the first micro-batch.
///   writer  of `reg`, in a rolled program
bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterIndex reg);

/// One op after the other, with the micro-batches of each in ascending order.
///   requires  the instructions of `rolled` are in the order of partition; others may follow
///   time      O(instances)
InstanceOrder order_by_op(const Program& rolled);

/// What a step executes, in the order in which it does: the order of a rolled program, or
/// order_by_op when it has none yet; otherwise the instructions.
InstanceOrder instances(const Program& program);

/// The program with the instances of a rolled one as instructions, in their order. A program that
/// is not rolled stays as it is.
///
///   ensures   names have the numbers of micro-batches, and kernels their integers; the sum over
///             micro-batches is a register for each of them ("dw.sum #1", ..., "dw"), since each
///             register has one writer. The registers of an op come before those of the next one,
///             and those of its first micro-batch before those of the next one; those that were
///             added behind partition follow. The same inputs give the same result
///   requires  of each instruction the micro-batches are in ascending order
///   time      O(instances + registers)
Program unroll(Program program);

}  // namespace tessera
