// The loop of a run: steps, with progress, evaluations and metrics. Training and the demo share it.
#pragma once

#include <functional>
#include <vector>

#include "cli/run_folder.h"

namespace tessera {

struct TrainedRun {
  std::vector<double> losses;    // of the steps that were run here
  double held_out_loss = 0;      // at the end, over as much of the held-out text as train.evaluate_batches says
  int64_t held_out_tokens = 0;   // over which that is the mean
  double tokens_per_second = 0;  // without the first step, which binds and warms up, unless it is the only one
  bool stopped = false;          // by after_step: then there is no held-out loss
};

/// Runs the steps of `engine` that are left of config().train.steps, and evaluates as its configuration says and at the end.
///   folder      null: nothing is written
///   after_step  returns false to stop there
TrainedRun train_to_end(Engine& engine, RunFolder* folder = nullptr, const std::function<bool()>& after_step = {});

}  // namespace tessera
