// Steps of many micro-batches, predicted from steps of few. A program holds every task once for
// each micro-batch, so a step of hundreds of them takes gigabytes to compile.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"
#include "prediction/step_prediction.h"
#include "rewrite/rewrite_cache.h"
#include "search/candidates/traffic.h"

namespace tessera {

/// A step of fewer micro-batches of as many rows: its graph and its plan.
struct ShorterStep {
  std::shared_ptr<const Graph> graph;
  Plan plan = {};
  std::shared_ptr<RewriteCache> rewrites = std::make_shared<RewriteCache>();  // of this graph
};

/// The numbers of micro-batches of the two shorter steps of a pipeline, ascending. The smaller one
/// fills it: from there on every further micro-batch takes as long as the busiest stage needs for
/// it, and none needs further memory.
///   example  16 stages -> {16, 32}
std::array<int64_t, 2> shorter_counts(int stages);

/// What the step takes for `count` micro-batches, along the line through both predictions. The
/// memory is that of `more`; timeline, critical path and memory over time are left out.
///   requires  both are of the same ranks; fewer_count < more_count
struct LongStep {
  int64_t fewer_count = 0, more_count = 0, count = 0;

  StepPrediction prediction(const StepPrediction& fewer, const StepPrediction& more) const;
  Traffic traffic(const Traffic& fewer, const Traffic& more) const;

 private:
  double at(double fewer, double more) const;
  int64_t at(int64_t fewer, int64_t more) const;
  Seconds at(Seconds fewer, Seconds more) const;
  Bytes at(Bytes fewer, Bytes more) const;
};

}  // namespace tessera
