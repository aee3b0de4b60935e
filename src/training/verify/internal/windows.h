// What one execution of a step captures. A step whose registers do not fit into memory at a time is
// executed once for each window, from the same state, with the same bits.
#pragma once

#include <vector>

#include "base/units.h"
#include "task_graph/tasks/task_graph.h"
#include "training/verify/internal/decisions.h"
#include "training/verify/internal/reference_step.h"

namespace tessera {

/// The registers that are compared, and those that are read, with a piece of the reference.
struct ComparedPiece {
  ReferencePieces::Piece ops;
  std::vector<RegisterIndex> registers;  // in program order
  std::vector<ValueId> operands;         // of decisions
  /// Those that hold partial values of f16 or bf16, whose sum they round.
  std::vector<RegisterIndex> rounded;
};

/// The pieces of the reference with what is compared after each: the registers of the values that
/// it makes, and of inputs and variables those that it reads first.
std::vector<ComparedPiece> compared_pieces(const ReferencePieces& pieces, const Graph& graph,
                                           const TaskGraph& tasks,
                                           const DecisionOperands& decisions);

struct CaptureWindow {
  int begin = 0, end = 0;                // pieces
  std::vector<RegisterIndex> registers;  // each once
  Bytes bytes{0};                        // that are captured
};

/// Divides the pieces, in their order, into windows whose registers have at most `limit` bytes, or
/// that are one piece.
std::vector<CaptureWindow> capture_windows(const std::vector<ComparedPiece>& pieces,
                                           const DecisionOperands& decisions,
                                           const TaskGraph& tasks, Bytes limit);

/// What a capture keeps of a register whose replicas have the same bits.
Bytes captured_bytes(const Register& reg);

/// What all ranks keep for a program: arenas and variables.
Bytes bytes_on_all_ranks(const TaskGraph& tasks);

}  // namespace tessera
