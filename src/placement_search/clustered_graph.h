// A graph with its op clusters: what the search problems of a graph have in common on every mesh.
#pragma once

#include "graph/graph.h"
#include "placement_search/chunk_dims.h"
#include "placement_search/memory_moments.h"
#include "placement_search/op_cluster_reads.h"
#include "placement_search/search_options.h"
#include "placement_search/shared_decisions.h"
#include "shard/rules.h"

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
