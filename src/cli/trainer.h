// A run of the program: fit() with progress, evaluations and a run folder. Training and the demo share it.
#pragma once

#include <vector>

#include "cli/run_folder.h"
#include "engine/fit.h"

namespace tessera {

struct TrainedRun {
  FitResult fit;                 // the steps that were run here, and the evaluations
  Evaluation held_out;           // at the end, over as much of the held-out text as train.evaluate_batches says
  double tokens_per_second = 0;  // without the first step, which binds and warms up, unless it is the only one

  std::vector<double> losses() const;
};

/// Runs the steps of `engine` that are left of config().train.steps, and evaluates as its configuration says and at the end.
///   folder  null: nothing is written
TrainedRun train_to_end(Engine& engine, RunFolder* folder = nullptr);

}  // namespace tessera
