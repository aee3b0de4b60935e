// A run of the program: fit() with progress and evaluations. Training and the demo share it.
#pragma once

#include <optional>
#include <vector>

#include "engine/fit.h"

namespace tessera {

struct TrainedRun {
  FitResult fit;                       // the steps that were run here, and the evaluations
  std::optional<Evaluation> held_out;  // at the end, over as much of the held-out text as train.evaluate_batches says; none of a run that
                                       // left in haste
  double tokens_per_second = 0;        // without the first step, which binds and warms up, unless it is the only one

  std::vector<double> losses() const;
};

/// Runs the steps of `engine` that are left of config().train.steps, and evaluates as its configuration says and at the end.
///   options  callbacks and saving; the rest is set here
TrainedRun train_to_end(Engine& engine, FitOptions options = {});

}  // namespace tessera
