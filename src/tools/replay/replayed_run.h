// A run of a table, predicted.
#pragma once

#include <memory>
#include <vector>

#include "cluster/cluster/cluster.h"
#include "compiler/plan/plan.h"
#include "planner/search/candidates/long_steps.h"
#include "simulator/step/step_prediction.h"
#include "tools/replay/run_table.h"

namespace tessera {

/// The compiled programs of a run; its plan is compiled once, for the prices of the first cluster.
/// A step of many micro-batches is predicted from two of few, whose difference is that of each
/// further one: a pipeline in its steady state (planner/search/candidates/long_steps.h).
class ReplayedRun {
 public:
  ///   throws  UserError of the cluster, the preset or the model of the row
  explicit ReplayedRun(TableRun row);

  const TableRun& row() const { return row_; }
  const ClusterDescription& cluster() const { return description_; }
  int64_t devices() const { return plan_.rank_count(); }

  /// The step on the cluster of the row with the software of a profile.
  ///   has_reasons  with StepPrediction::critical, of the longer of two steps
  StepPrediction predict(const RuntimeProfile& profile, bool has_reasons);
  /// The same along the critical paths of the last predict().
  Seconds along_path(const RuntimeProfile& profile) const;

 private:
  void compile_on(const Cluster& cluster);

  TableRun row_;
  ClusterDescription description_;
  Plan plan_;
  std::vector<std::shared_ptr<const TaskGraph>> programs_;  // of one step, or of two shorter ones
  LongStep line_;                                           // with two programs
  std::vector<StepPath> paths_;
};

}  // namespace tessera
