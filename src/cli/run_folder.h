// The folder of a run: what was run, and how it went.
#pragma once

#include <filesystem>

#include "engine/run_logs.h"

namespace tessera {

/// Writes into a folder, which it makes:
///
///     plan.json, config.json       the plan stamped for the model, and every setting
///     metrics.jsonl                a line a step and an evaluation (MetricsLog)
///     logs/rank-00000.jsonl ...    a log a rank (RankLogs), with a line every ten steps
///     events.out.tfevents.*        the same numbers for TensorBoard (EventLog)
///
///   go on   an engine that has done steps goes on: what the folder holds stays, and new lines come behind it
///   throws  UserError: 2 a run that begins finds another run in the folder; 1 the folder cannot be made or written
class RunFolder {
 public:
  RunFolder(const std::filesystem::path& folder, const Engine& engine);

  /// The callbacks that write into it, for FitOptions.
  std::vector<Callback*> callbacks() { return {&metrics_, &ranks_, &events_}; }

 private:
  MetricsLog metrics_;
  RankLogs ranks_;
  EventLog events_;
};

}  // namespace tessera
