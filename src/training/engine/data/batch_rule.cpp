#include "training/engine/data/batch_rule.h"

#include <algorithm>

#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "sharding/explicit/explicit_shardings.h"
#include "training/engine/internal/programs/shared_variables.h"

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
  if (schedule.steps == 0) schedule.steps = train.steps;
  train.batch_per_rank = 0;
  train.scale_learning_rate = RateScaling::kNone;
}

int64_t parts_of_samples(const DistAttr& attr) {
  int64_t parts = 1;
  for (int axis : attr.dims.front().axes)
    if (attr.mesh->axes()[axis] != kMicroBatchAxis) parts *= attr.mesh->shape()[axis];
  return parts;
}

/// The product of the weights of all axes, for the parts in order.
std::vector<int64_t> weights_of_samples(const DistAttr& attr) {
  std::vector<double> weights{1};
  bool are_equal = true;
  for (int axis : attr.dims.front().axes) {
    if (attr.mesh->axes()[axis] == kMicroBatchAxis) continue;
    std::vector<int64_t> own = attr.mesh->weights()[axis];
    are_equal = are_equal && own.empty();
    if (own.empty()) own.assign(static_cast<size_t>(attr.mesh->shape()[axis]), 1);
    std::vector<double> product;
    for (double outer : weights)
      for (int64_t inner : own) product.push_back(outer * static_cast<double>(inner));
    weights = std::move(product);
  }
  if (are_equal) return {};
  const double largest = *std::max_element(weights.begin(), weights.end());
  const double scale = std::min(1.0, static_cast<double>(kMaxPartWeight) / largest);
  std::vector<int64_t> result;
  for (double weight : weights)
    result.push_back(std::max<int64_t>(1, static_cast<int64_t>(weight * scale)));
  return result;
}

}  // namespace

std::vector<int64_t> data_parallel_weights(const ShardedGraph& sharded, const Graph& graph) {
  return weights_of_samples(sharded.at(samples_input(graph)));
}

int64_t data_parallel_parts(const ShardedGraph& sharded, const Graph& graph) {
  return parts_of_samples(sharded.at(samples_input(graph)));
}

int64_t data_parallel_ranks(const Network& network, const TrainConfig& train, const Plan& plan) {
  const int64_t rows = std::max<int64_t>(train.batch_per_rank, 1) * plan.rank_count();
  const Graph graph = forward_graph(network, ForwardPurpose::kTraining, rows, train.seed);
  if (plan.shardings) {
    const ValueId samples = samples_input(graph);
    return parts_of_samples(training_placement(*plan.shardings, graph.value(samples).name,
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
