// A graph with its op clusters: what the search problems of a graph have in common on every mesh.
#pragma once

#include "ir/graph/graph.h"
#include "planner/placement/internal/chunk_dims.h"
#include "planner/placement/internal/memory_moments.h"
#include "planner/placement/internal/op_cluster_reads.h"
#include "planner/placement/internal/search_options.h"
#include "planner/placement/shared_decisions.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// Does not change, so several threads may read it.
struct ClusteredGraph {
  /// The graph outlives it. Of the options the op clusters, the rules and the constraints count.
  ClusteredGraph(const Graph& graph, const SharedDecisions& shared_decisions,
                 const SearchProblemOptions& options);
  ClusteredGraph(const ClusteredGraph&) = delete;  // its parts refer to each other
  ClusteredGraph& operator=(const ClusteredGraph&) = delete;

  const Graph& graph;
  const SharedDecisions shared_decisions;
  const OpClusterReads reading;
  const OpRules rules;
  const ChunkDims chunks;
  const MemoryMoments moments;
};

}  // namespace tessera
