// Batch and learning rate that are given for each data-parallel rank: their values once the plan is
// known.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "plan/plan.h"
#include "shard/propagate.h"

namespace tessera {

/// The number of parts that the rows of a batch are divided into, other than micro-batches.
///   sharded  of `graph`
int64_t data_parallel_parts(const ShardedGraph& sharded, const Graph& graph);

/// The same for `plan`: 1 without data parallelism. By propagation of the plan's marks, so that it
/// does not matter how they say it.
int64_t data_parallel_ranks(const RunConfig& config, const Plan& plan);

/// The configuration for `plan`, with train.batch_per_rank and train.scale_learning_rate replaced
/// by the values that follow.
///
///   batch_per_rank  b on k data-parallel ranks is a batch of k b rows
///   linear scaling  multiplies the rate by k, so that k b rows in one step do what k steps on b
///                   rows would; a warm-up then rises from the unscaled rate, 1/k of the peak
///                   (optimizer.warmup_start, when it is given, stays). A fixed train.batch keeps
///                   its rate: it is the same batch under every plan
///   ensures         a second call changes nothing
///   source          Goyal et al., Accurate, Large Minibatch SGD, arXiv 1706.02677, sections 2.1
///                   and 2.2
RunConfig resolved_for(RunConfig config, const Plan& plan);

}  // namespace tessera
