// A run of the program: fit() with progress, evaluations, a run folder and checkpoints. Training
// and the demo share it.
#pragma once

#include <optional>
#include <vector>

#include "cli/run/run_checkpoints.h"
#include "cli/run/run_folder.h"
#include "cli/run/trace_file.h"
#include "launch/stop_signals.h"
#include "training/fit.h"

namespace tessera {

struct TrainedRun {
  FitResult fit;                          // the steps that were run here, and the evaluations
  std::optional<Evaluation> held_out;     // at the end, over as much of the held-out text as
                                          // train.evaluate_batches says; none when it stopped
  std::optional<std::string> stopped_by;  // a signal
  double tokens_per_second =
      0;  // without the first step, which binds and warms up, unless it is the only one

  std::vector<double> losses() const;
};

/// What surrounds a run of the command; each may be null.
struct RunKeepers {
  RunFolder* folder = nullptr;
  RunCheckpoints* checkpoints = nullptr;
  StopSignals* signals = nullptr;
  TraceFile* trace = nullptr;
  bool check_replicas = false;
};

/// Runs the steps of `engine` that are left of config().train.steps, evaluates and saves as its
/// configuration says and at the end. A signal ends it after the step under way, with a checkpoint
/// and without an evaluation.
TrainedRun train_to_end(Engine& engine, const RunKeepers& keepers = {});

}  // namespace tessera
