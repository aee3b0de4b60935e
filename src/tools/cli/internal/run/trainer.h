// fit() with progress, evaluations, a run folder and checkpoints, for training and the demo.
#pragma once

#include <optional>
#include <vector>

#include "tools/cli/internal/run/run_checkpoints.h"
#include "tools/cli/internal/run/run_folder.h"
#include "tools/cli/internal/run/trace_file.h"
#include "tools/launch/stop_signals.h"
#include "training/fit/fit.h"

namespace tessera {

struct TrainedRun {
  FitResult fit;  // the steps of this process, and the evaluations
  /// After the last step; nullopt when a signal ended the run, or without an evaluation.
  std::optional<Evaluation> held_out;
  std::optional<std::string> stopped_by;  // the name of a signal
  double tokens_per_second = 0;           // without the warm-up step, unless it is the only one

  std::vector<double> losses() const;
};

/// Writers and observers of a run. Every pointer may be nullptr.
struct RunServices {
  RunFolder* folder = nullptr;
  RunCheckpoints* checkpoints = nullptr;
  BestCheckpoint* best = nullptr;
  StopSignals* signals = nullptr;
  TraceFile* trace = nullptr;
  bool check_replicas = false;
  bool evaluate_at_end = true;
  std::vector<HeldOutLoss> earlier = {};  // of a run that is resumed: those of its evaluations
  std::string unit = "token";  // the unit of the displayed speed: "token", "image", "pixel"
};

/// Runs the remaining steps of config().train.steps, evaluates and saves as the configuration says
/// and at the end. A signal ends the run after the current step, with a checkpoint and without an
/// evaluation.
TrainedRun train_to_end(Engine& engine, const RunServices& services = {});

}  // namespace tessera
