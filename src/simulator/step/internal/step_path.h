// The critical path of a predicted step, with the acts that are on it.
#pragma once

#include <vector>

#include "base/units.h"
#include "simulator/clock/simulate.h"
#include "simulator/step/deployment.h"
#include "simulator/step/internal/act_work.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// It tells how a step changes with the prices, as long as its critical path stays the same: the
/// step of other prices is never shorter than this path, and to first order it is as long. A fit
/// takes thousands of such steps; simulations of them would take hours.
class StepPath {
 public:
  ///   simulation  of the graph on the deployment, with has_path_and_memory
  ///   requires    devices that are no CPUs, and a runtime that fuses
  StepPath(const TaskGraph& graph, const Simulation& simulation, const Deployment& deployment);

  /// The length of the path with the prices of another cluster of the same form. What an act took
  /// beyond its fixed time changes as the time of its slowest flow does.
  ///   requires  as many devices, in machines of the same sizes
  ///   ensures   on(the cluster of the deployment) is StepPrediction::step
  Seconds on(const Cluster& cluster) const;

 private:
  /// Acts of one task, or of tasks that are identical, on one rank.
  struct Act {
    DeviceId device = 0;
    std::vector<KernelWork> kernels;  // of a task of kernels
    size_t pass = 0;                  // in passes_
    ExchangeWork exchange;            // of an exchange
    double count = 0;                 // parts of acts count as parts
    double in_flows = 0;              // seconds beyond the fixed times
    double flow = 0;                  // seconds of the slowest flow of one act, alone
  };
  struct Price {
    double fixed = 0, flow = 0;  // seconds of one act
  };

  ///   waits  of the host for a kernel, by pass
  static Price price(const Act& act, const std::vector<double>& waits, const Cluster& cluster);

  std::vector<Act> acts_;
  std::vector<PassWork> passes_;
  double rest_ = 0;  // seconds that no act explains, or that no profile changes
};

}  // namespace tessera
