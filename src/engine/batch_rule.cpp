#include "engine/batch_rule.h"

#include <algorithm>

#include "engine/shared_variables.h"
#include "network/family.h"
#include "network/graphs.h"
#include "shard/resolved/resolve.h"

namespace tessera {
namespace {

void resolve(TrainConfig& train, Schedule& schedule, const Network& network, const Plan& plan) {
  if (train.batch_per_rank > 0) {
    const int64_t ranks = data_parallel_ranks(network, train, plan);
    train.batch = train.batch_per_rank * ranks;
    if (train.scale_learning_rate == RateScaling::kLinear) {
      schedule.peak *= static_cast<double>(ranks);
      if (schedule.warmup_start == 0) schedule.warmup_start = 1.0 / static_cast<double>(ranks);
    }
  }
  train.batch_per_rank = 0;
  train.scale_learning_rate = RateScaling::kNone;
}

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

int64_t data_parallel_ranks(const Network& network, const TrainConfig& train, const Plan& plan) {
  const int64_t rows = std::max<int64_t>(train.batch_per_rank, 1) * plan.rank_count();
  const Graph graph = forward_graph(network, ForwardPurpose::kTraining, rows, train.seed);
  if (plan.shardings) {
    const ValueId samples = samples_input(graph);
    return parts_of_samples(home_in_training(*plan.shardings, graph.value(samples).name,
                                             graph.type(samples).shape, plan.placed()));
  }
  return data_parallel_parts(propagate(graph, plan.placed(), marks_for(graph, plan.marks)), graph);
}

int64_t data_parallel_ranks(const RunConfig& config, const Plan& plan) {
  return data_parallel_ranks(network_of(config.model), config.train, plan);
}

TrainingSettings resolved_for(TrainingSettings settings, const Network& network, const Plan& plan) {
  resolve(settings.train, settings.optimizer.schedule, network, plan);
  return settings;
}

RunConfig resolved_for(RunConfig config, const Plan& plan) {
  resolve(config.train, config.optimizer.schedule, network_of(config.model), plan);
  return config;
}

}  // namespace tessera
