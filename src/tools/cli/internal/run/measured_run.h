// The measured steps of runs: of the folder of a run, and of a run that is made for it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/units.h"
#include "cluster/cluster/cluster.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {

struct MeasuredRun {
  Seconds step{0};  // 0: no step was run
  Bytes peak{0};    // the most that a rank of this process has allocated
};

/// The median of the times of steps, without the first two when there are more: those allocate.
Seconds usual_step(std::vector<Seconds> times);

/// Is it the folder of a run: of `train --out`?
bool is_run_folder(const std::filesystem::path& path);

/// What metrics.jsonl in the folder of a run says.
///   throws  UserError: 66 without the file; 78 when it is damaged or has no steps
MeasuredRun recorded_run(const std::filesystem::path& folder);

/// A run whose step can be predicted on any cluster: its compiled program.
struct PredictableRun {
  std::string name;
  Session session;
  std::shared_ptr<const RunData> data;          // nullptr of a recorded run
  std::shared_ptr<const TaskGraph> tasks = {};  // of the training program
  MeasuredRun measured = {};

  Seconds predicted_on(const Cluster& cluster, const std::string& cluster_name) const;
};

/// "configs/gpt.toml", "configs/gpt.toml:dp=2" (with a plan as --plan has it), or the folder of a
/// run, which has its configuration, its plan and its measured steps.
///   ensures  `tasks` is there; `measured` is there of a recorded run
///   throws   UserError of the configuration, the plan, or the folder
PredictableRun predictable_run(const std::string& text);

/// The step of a run that is made for it: tools/cli/internal/run/measured_step.h.
Seconds measure_step(const PredictableRun& run, int64_t steps);

}  // namespace tessera
