// Unrolling: from a rolled program to one with instructions and registers of each micro-batch.
#pragma once

#include <optional>
#include <vector>

#include "lower/program.h"

namespace tessera {

/// An instruction of a rolled program in one micro-batch.
struct InstructionInstance {
  InstructionIndex instruction;
  int micro_batch = -1;  // -1: once a step
  std::optional<PassKind> pass = std::nullopt;
};
/// What a step executes, in the order in which it does. A sum over micro-batches has no instance in
/// the first one.
using InstanceOrder = std::vector<InstructionInstance>;

/// One op after the other, with the micro-batches of each in ascending order.
///   requires  the instructions of `rolled` are in the order of partition; others may follow
///   time      O(instances)
InstanceOrder order_by_op(const Program& rolled);

/// The program with the instances of `order` as instructions.
///
///   ensures   names have the numbers of micro-batches, and kernels their integers; the sum over
///             micro-batches is a register for each of them ("dw.sum #1", ..., "dw"), since each
///             register has one writer. The registers of an op come before those of the next one,
///             and those of its first micro-batch before those of the next one. The same inputs
///             give the same result
///   requires  of each instruction the micro-batches are in ascending order
///   time      O(instances + registers)
Program unroll(Program rolled, const InstanceOrder& order);
/// In the order of order_by_op; a program that is unrolled already stays as it is.
Program unroll(Program program);

}  // namespace tessera
