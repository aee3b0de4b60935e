// The predicted step of a run on a cluster, for the commands that print it.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster/cluster.h"
#include "cluster/mapping/mapping.h"
#include "compiler/lower/lower.h"
#include "simulator/step/step_prediction.h"
#include "tools/cli/internal/run/named_cluster.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {

/// What a step does, whatever the plan.
struct StepWork {
  int64_t units = 0;
  std::string unit;  // "token"
  Flops flops{0};    // of the model
};

/// What is trained. What it refers to outlives it.
struct Workload {
  const Network& network;
  const TrainingSettings& settings;
  const Graph& graph;      // the training graph
  bool evaluates = false;  // then the evaluation program stays loaded
  /// Is the timeline of the predicted steps wanted? Without it one step is simulated.
  bool has_timeline = false;
};

/// A mapping of the ranks that was found, beside the devices in order.
struct MappedRanks {
  Mapping mapping;
  MappingCost in_order;    // what rank i on device i would cost
  Seconds step_before{0};  // of the devices that the ranks had before
  Seconds step_mapped{0};
  /// false: the step would be longer, so the ranks stay where they were.
  bool is_used = true;
};

struct PredictedRun {
  std::shared_ptr<const Cluster> cluster;
  std::string cluster_name;
  Deployment deployment;
  StepWork work;
  StepPrediction prediction;
  std::optional<MappedRanks> mapped = {};

  double units_per_second() const;
  double mfu() const;
  /// The index of the rank whose memory is fullest.
  size_t fullest() const;
};

/// The devices of the ranks: those of the mapping of the plan when it is one for this cluster,
/// otherwise in order.
///   throws  UserError (78) when the cluster lacks devices
Deployment deployment_of(const Plan& plan, const NamedCluster& cluster);

/// Predicts the step of the compiled training program under `plan`, with its memory over time and
/// its critical path.
///   compiled  of the training graph under `plan`
///   throws    UserError (78) when the cluster lacks devices
PredictedRun predict_run(const Workload& work, const Plan& plan, const Compiled& compiled,
                         const NamedCluster& cluster);

/// Maps the ranks of `run` so that those which exchange much are close, and predicts the step
/// again. Where it is not longer, `plan` gets the mapping and the result has it; otherwise the
/// result is `run`.
///   run     of predict_run with the same arguments
///   throws  UserError (3) when the cluster lacks devices that the ranks need
PredictedRun predict_mapped_run(const Workload& work, Plan& plan, const Compiled& compiled,
                                const NamedCluster& cluster, PredictedRun run);

}  // namespace tessera
