// fit() with progress, evaluations, a run folder and checkpoints, for training and the demo.
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
  std::optional<Evaluation> held_out;     // after the last step; none when a signal stopped it
  std::optional<std::string> stopped_by;  // a signal
  double tokens_per_second = 0;           // without the warm-up step, unless it is the only one

  std::vector<double> losses() const;
};

/// What writes and watches a run; every pointer may be null.
struct RunServices {
  RunFolder* folder = nullptr;
  RunCheckpoints* checkpoints = nullptr;
  StopSignals* signals = nullptr;
  TraceFile* trace = nullptr;
  bool check_replicas = false;
  std::string unit = "token";  // of the speed that is shown: "token", "image", "pixel"
};

/// Runs the remaining steps of config().train.steps, evaluates and saves as the configuration says
/// and at the end. A signal ends the run after the current step, with a checkpoint and without an
/// evaluation.
TrainedRun train_to_end(Engine& engine, const RunServices& services = {});

}  // namespace tessera
