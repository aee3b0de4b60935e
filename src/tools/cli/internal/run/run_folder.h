// The folder of a run: its plan, configuration, metrics and logs.
#pragma once

#include <filesystem>
#include <optional>

#include "training/fit/run_logs.h"

namespace tessera {

/// Writes into a folder, which it makes:
///
///     plan.json, config.json       the plan stamped for the model, and every setting
///     metrics.jsonl                a line for each step and each evaluation (MetricsLog)
///     logs/rank-00000.jsonl ...    a log for each rank (RankLogs), with a line every ten steps;
///                                  each process writes those of its ranks
///     events.out.tfevents.*        the same numbers for TensorBoard (EventLog)
///
///   resume  with an engine that has done steps, the files stay and new lines are appended
///   begin   a run that stored no checkpoint cannot be resumed, so another one begins in its
///           folder: its metrics are renamed to metrics.1.jsonl or the next free number, and a note
///           says so
///   throws  UserError: 2 when a new run finds a checkpoint of another one in the folder; 1 when
///           the folder cannot be made or written
class RunFolder {
 public:
  RunFolder(const std::filesystem::path& folder, Engine& engine,
            const std::optional<DevicePeak>& peak = std::nullopt);

  /// The callbacks that write into it, for FitOptions.
  std::vector<Callback*> callbacks();

 private:
  std::optional<MetricsLog> metrics_;  // only on the leader
  std::optional<RankLogs> ranks_;
  std::optional<EventLog> events_;
};

}  // namespace tessera
