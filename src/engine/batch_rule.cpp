#include "engine/batch_rule.h"

#include <algorithm>

#include "engine/shared_variables.h"
#include "shard/resolved/resolve.h"

namespace tessera {

namespace {

int64_t parts_of_samples(const DistAttr& attr) {
  int64_t parts = 1;
  for (int axis : attr.dims.front().axes)
    if (attr.mesh->axes()[axis] != kMicroBatchAxis) parts *= attr.mesh->shape()[axis];
  return parts;
}

}  // namespace

int64_t data_parallel_parts(const ShardedGraph& sharded, const Graph& graph) {
  return parts_of_samples(sharded.of(samples_input(graph)));
}

int64_t data_parallel_ranks(const RunConfig& config, const Plan& plan) {
  const int64_t rows = std::max<int64_t>(config.train.batch_per_rank, 1) * plan.rank_count();
  const Graph graph = build_model(
      config.model, {.batch = rows, .training = false, .loss = true, .seed = config.train.seed});
  if (plan.shardings) {
    const ValueId samples = samples_input(graph);
    return parts_of_samples(home_in_training(*plan.shardings, graph.value(samples).name,
                                             graph.type(samples).shape, plan.placed()));
  }
  return data_parallel_parts(propagate(graph, plan.placed(), marks_for(graph, plan.marks)), graph);
}

RunConfig resolved_for(RunConfig config, const Plan& plan) {
  if (config.train.batch_per_rank == 0) {
    config.train.scale_learning_rate = RateScaling::kNone;
    return config;
  }
  const int64_t ranks = data_parallel_ranks(config, plan);
  config.train.batch = config.train.batch_per_rank * ranks;
  if (config.train.scale_learning_rate == RateScaling::kLinear) {
    Schedule& schedule = config.optimizer.schedule;
    schedule.peak *= static_cast<double>(ranks);
    if (schedule.warmup_start == 0) schedule.warmup_start = 1.0 / static_cast<double>(ranks);
  }
  config.train.batch_per_rank = 0;
  config.train.scale_learning_rate = RateScaling::kNone;
  return config;
}

}  // namespace tessera
