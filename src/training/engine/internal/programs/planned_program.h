// The programs of a run by what they compute.
#pragma once

#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"

namespace tessera {

/// The computation of a program.
enum class Purpose {
  kTrain,     // a whole training step
  kEvaluate,  // loss and counts of a batch, without dropout
  kPredict,   // results of given rows
  kDecode,    // logits of one position of a row, with the keys and values of the earlier ones
  // These are the parts of a training step (training/engine/internal/steps/step_parts.h).
  kAccumulate,
  kReduceGradients,
  kApplyGradients,
};

/// A program of a run: its graph, and the plan by which it is compiled.
struct PlannedProgram {
  Purpose purpose = Purpose::kTrain;
  Graph graph;
  Plan plan;
};

}  // namespace tessera
