// The batch and the learning rate of a plan when the configuration gives them for each
// data-parallel rank.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/plan/plan.h"
#include "ir/models/network.h"
#include "sharding/propagation/propagate.h"
#include "training/config/config.h"

namespace tessera {

/// The number of parts that the rows of a batch are divided into, other than micro-batches.
///   sharded  made from `graph`
int64_t data_parallel_parts(const ShardedGraph& sharded, const Graph& graph);

/// The weights of these parts; empty when they are equal.
std::vector<int64_t> data_parallel_weights(const ShardedGraph& sharded, const Graph& graph);

/// The number of parts for `plan`: 1 without data parallelism. The marks of the plan are
/// propagated, so it does not matter which marks express the parallelism; explicit shardings say
/// it.
int64_t data_parallel_ranks(const Network& network, const TrainConfig& train, const Plan& plan);
int64_t data_parallel_ranks(const RunConfig& config, const Plan& plan);

/// The settings for `plan`, with train.batch_per_rank and train.scale_learning_rate replaced
/// by the values that follow, and Schedule::steps by train.steps where it is 0.
///
///   batch_per_rank  b on k data-parallel ranks is a batch of k b rows
///   linear scaling  multiplies the rate by k, so that one step of k b rows does what k steps of b
///                   rows would do. A warm-up then rises from the unscaled rate, 1/k of the peak
///                   (optimizer.warmup_start stays when it is given). A fixed train.batch keeps its
///                   rate: it is the same batch under every plan
///   ensures         a second call changes nothing
///   source          Goyal et al., Accurate, Large Minibatch SGD, arXiv 1706.02677, sections 2.1
///                   and 2.2
TrainingSettings resolved_for(TrainingSettings settings, const Network& network, const Plan& plan);
RunConfig resolved_for(RunConfig config, const Plan& plan);

}  // namespace tessera
