// The predicted step of a compiled plan on a cluster: its time, where it goes, and whether it fits.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulator/clock/simulate.h"
#include "simulator/step/deployment.h"
#include "simulator/step/internal/critical_parts.h"
#include "simulator/step/internal/memory_over_time.h"
#include "simulator/step/internal/step_path.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// The kernels of a step on one rank and one mesh.
struct PassTimes {
  Seconds forward{0}, backward{0};  // of all micro-batches
  Seconds once{0};                  // of the optimizer, and what is done once for all of them
};

/// Where the time of a step goes on one rank. The parts add up to the step.
struct RankBreakdown {
  Rank rank = 0;
  Seconds compute{0};  // kernels run
  /// The same by the meshes of the task graph. Stages on equal meshes are one.
  std::map<MeshIndex, PassTimes> passes = {};
  /// No kernel runs and an exchange does, by the mesh axes of the exchange ("" between meshes).
  std::map<std::string, Seconds> exposed = {};
  /// All exchanges, those that kernels hide too, by the same axes. No part of the step.
  std::map<std::string, Seconds> exchanges = {};
  Seconds idle{0};          // neither: the rank waits for others, which in a pipeline is the bubble
  Rank representative = 0;  // the rank that was simulated for it, whose tracks the timeline has

  Seconds all_exposed() const;
};

/// Bytes that a rank needs.
struct RankMemoryNeed {
  Bytes variables{0};  // parameters and optimizer state, without what is in a file
  Bytes arena{0};      // activations, gradients and buffers
  Bytes batch{0};      // of the arena: inputs of the step, of all micro-batches
  Bytes others{0};     // of programs of PredictOptions::beside, what the arena has no space for
  Bytes reserve{0};    // of the libraries
  Bytes capacity{0};   // of its device; ranks that share a core share it evenly
  Bytes in_file{0};    // offloaded state, which takes no memory of the device

  /// What a run allocates for the rank: peak_bytes of its records.
  Bytes allocated() const { return variables + arena + others; }
  Bytes all() const { return allocated() + reserve; }
  bool fits() const { return all() <= capacity; }
};

struct StepPrediction {
  Seconds step{0};                     // from the end of one step to the end of the next
  std::vector<RankBreakdown> ranks;    // in ascending order
  std::vector<RankMemoryNeed> memory;  // in the same order
  Flops executed{0};                   // by all ranks
  Flops padding{0};                    // of these, what a kernel may leave out
  double peak_flops_per_second = 0;    // DeviceType::peak of all, for the type of the products
  Timeline timeline;
  Seconds begin{0};  // of the step, in the timeline
  /// With PredictOptions::explains.
  std::vector<CriticalPart> critical = {};
  std::vector<MemoryOverTime> memory_over_time = {};  // of the simulated ranks
  /// With PredictOptions::finds_path.
  std::optional<StepPath> path = {};

  bool fits() const;
  /// The greatest RankMemoryNeed::allocated().
  Bytes peak_bytes() const;
  /// The part of the peak that the executed arithmetic reaches: HFU.
  double utilization() const;
  /// The mean over the ranks of the time that is idle, as a part of the step.
  double bubble() const;
  /// The mean over the ranks of the time of exchanges that nothing hides.
  Seconds exposed() const;
};

struct PredictOptions {
  int64_t steps = 3;
  /// SimulateOptions::prefetch_exchanges.
  bool prefetch_exchanges = true;
  bool uses_rank_symmetry = true;  // SimulateOptions::uses_rank_symmetry
  DType products = DType::kF32;    // the element type of the products
  /// false: StepPrediction::timeline is empty, and a large program takes much less memory.
  bool has_timeline = true;
  /// Finds StepPrediction::critical and memory_over_time.
  bool explains = false;
  /// Of a longer step nothing but StepPrediction::step is found.
  std::optional<Seconds> limit = {};
  /// Finds StepPrediction::path, with the requirements of StepPath.
  bool finds_path = false;
  /// Programs that stay loaded beside this one, as that of the evaluation; over the same variables,
  /// and in its arenas as far as these have space.
  std::vector<std::shared_ptr<const TaskGraph>> beside = {};
};

/// Simulates steps of the task graph with the demands of ActDemands.
///   requires  check(graph); its ranks are in the deployment
StepPrediction predict_step(std::shared_ptr<const TaskGraph> graph, const Deployment& deployment,
                            const PredictOptions& options = {});

/// What each rank needs, in ascending order; nothing is simulated.
std::vector<RankMemoryNeed> memory_needs(const TaskGraph& graph, const Deployment& deployment,
                                         const PredictOptions& options = {});

}  // namespace tessera
