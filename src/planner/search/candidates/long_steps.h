// Steps of many micro-batches, predicted from steps of few. A program holds every task once for
// each micro-batch, so a step of hundreds of them takes gigabytes to compile.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "compiler/plan/plan.h"
#include "ir/graph/graph.h"
#include "planner/search/internal/candidates/traffic.h"
#include "simulator/step/step_prediction.h"

namespace tessera {

/// A step of fewer micro-batches of as many rows: its graph and its plan.
struct ShorterStep {
  std::shared_ptr<const Graph> graph;
  Plan plan = {};
};

/// The extent of dim 0 of the inputs, which micro-batches divide; 1 when no input has any.
int64_t batch_rows(const Graph& graph);

/// The sets of ranks that the stages of a plan have; several stages may have one.
int64_t device_groups(const Plan& plan);

/// The graphs of one training step for batches of other rows. The shorter steps of several
/// candidates share them.
///   threads  any number of callers
class ShorterGraphs {
 public:
  /// make(rows), which is called once for each number of rows.
  std::shared_ptr<const Graph> get(int64_t rows, const std::function<Graph(int64_t rows)>& make);

 private:
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<const Graph>> made_;
};

/// The numbers of micro-batches of the two shorter steps of a plan, ascending. The smaller one
/// fills the pipeline: from there on every further micro-batch takes as long as the busiest stage
/// needs for it. With the larger one as many are in flight as ever are.
///   example  16 stages on as many devices under 1f1b -> {16, 20}; on 8 devices -> {16, 24}
std::array<int64_t, 2> shorter_counts(const Plan& plan);

/// Is a step of n micro-batches of a graph predicted, if shorter ones have fewer?
bool is_long(const Graph& graph, int64_t micro_batches);

/// Is the step of the plan predicted from shorter ones? It has more micro-batches than these, and
/// its memory does not grow with them.
bool is_predicted(const Graph& graph, const Plan& plan);

/// The shorter steps of a plan: its decisions and placements, for fewer micro-batches.
///   requires  is_predicted(graph, plan)
///   make      the graph of the same step for a batch of other rows
std::vector<ShorterStep> shorter_steps(const Graph& graph, const Plan& plan, ShorterGraphs& graphs,
                                       const std::function<Graph(int64_t rows)>& make);

/// What the step takes for `count` micro-batches, along the line through both predictions. The
/// memory is that of `more` with a larger batch; timeline, critical path and memory over time are
/// left out.
///   requires  both are of the same ranks; fewer_count < more_count
struct LongStep {
  int64_t fewer_count = 0, more_count = 0, count = 0;

  StepPrediction prediction(const StepPrediction& fewer, const StepPrediction& more) const;
  std::vector<RankMemoryNeed> memory(const std::vector<RankMemoryNeed>& fewer,
                                     std::vector<RankMemoryNeed> more) const;
  Traffic traffic(const Traffic& fewer, const Traffic& more) const;
  Seconds at(Seconds fewer, Seconds more) const;

 private:
  double at(double fewer, double more) const;
  int64_t at(int64_t fewer, int64_t more) const;
  Bytes at(Bytes fewer, Bytes more) const;
};

}  // namespace tessera
