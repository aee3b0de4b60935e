// A graph with its cones: what the search problems of a graph have in common on every mesh.
#pragma once

#include "graph/graph.h"
#include "placement_search/chunk_dims.h"
#include "placement_search/cone_reading.h"
#include "placement_search/memory_moments.h"
#include "placement_search/search_options.h"
#include "placement_search/ties.h"
#include "shard/rules.h"

namespace tessera {

/// Does not change, so several threads may read it.
struct ConedGraph {
  /// The graph outlives it. Of the options the cones, the rules and the constraints count.
  ConedGraph(const Graph& graph, const Ties& ties, const SearchProblemOptions& options);
  ConedGraph(const ConedGraph&) = delete;  // its parts refer to each other
  ConedGraph& operator=(const ConedGraph&) = delete;

  const Graph& graph;
  const Ties ties;
  const ConeReading reading;
  const OpRules rules;
  const ChunkDims chunks;
  const MemoryMoments moments;
};

}  // namespace tessera
