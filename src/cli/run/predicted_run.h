// The predicted step of a run on a cluster, for the commands that print it.
#pragma once

#include <memory>
#include <string>

#include "cli/run/session.h"
#include "cluster/cluster.h"
#include "lower/lower.h"
#include "prediction/step_prediction.h"

namespace tessera {

/// What a step does, whatever the plan.
struct StepWork {
  int64_t units = 0;
  std::string unit;  // "token"
  Flops flops{0};    // of the model
};

struct PredictedRun {
  std::shared_ptr<const Cluster> cluster;
  std::string cluster_name;
  Deployment deployment;
  StepWork work;
  StepPrediction prediction;

  double units_per_second() const;
  double mfu() const;
  /// The index of the rank whose memory is fullest.
  size_t fullest() const;
};

/// The cluster of a command line: a file or one line. Its name is that of its description, else the
/// line.
struct NamedCluster {
  std::shared_ptr<const Cluster> cluster;
  std::string name;
};
NamedCluster named_cluster(const std::string& file_or_line);

/// Predicts the step of the compiled training program under `plan`, with its memory over time and
/// its critical path. When the run evaluates, its evaluation program stays loaded, too.
///   graph     the training graph
///   compiled  of `graph` under `plan`
///   throws    UserError (78) when the cluster lacks devices
PredictedRun predict_run(const RunConfig& config, const Plan& plan, const Graph& graph,
                         std::shared_ptr<const Compiled> compiled, const NamedCluster& cluster);

}  // namespace tessera
