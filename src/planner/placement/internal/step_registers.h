// The step of an assignment as it is compiled on one mesh: its kernels and exchanges in program
// order, and the registers that they read and write. Plain numbers, without kernels and boxes; the
// compiler makes the same (compiler/lower/internal/value_registers.h,
// compiler/lower/internal/passes/in_place.h).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/propagation/mark.h"
#include "sharding/reshard/reshard_plans.h"

namespace tessera {

/// What an assignment says of a graph.
struct PlacedStep {
  const Graph& graph;
  /// By op: of its results, then of its operands. None is nullptr.
  std::vector<std::vector<const DistAttr*>> operands;
  std::vector<const DistAttr*> canonical_placements;  // by value; nullptr: where its op makes it
  std::vector<ReplicaLifetime> copies;                // by value: of what it is resharded to
};

/// A value in one placement.
struct StepRegister {
  int value = -1;
  const DistAttr* placement = nullptr;
  int64_t bytes = 0;  // of the largest part of a rank
  /// Of a variable, or of its next value that is written over it: it is in no arena.
  bool is_variable = false;
  bool is_result = false;  // of the program: it lives to the end
  int writer = -1;         // the instruction; -1: it is given before the step
};

/// A kernel or an exchange.
struct StepInstruction {
  int op = -1;  // -1: an exchange, from one register to another
  Role role = Role::kForward;
  std::vector<int> reads = {}, writes = {};

  bool is_exchange() const { return op < 0; }
};

struct StepRegisters {
  std::vector<StepRegister> registers;
  std::vector<StepInstruction> instructions;
};

/// May the kernel of an op write its first result over its operand `input`, which has the type and
/// the placement of the result?
using MayWriteOver = std::vector<std::vector<bool>>;  // by op and input

/// The instructions that one micro-batch on one mesh has before any is moved or combined.
///   placed  outlives the registers, and so do the plans
StepRegisters registers_of(const PlacedStep& placed, const MayWriteOver& may_write_over,
                           ReshardPlans& plans);

}  // namespace tessera
