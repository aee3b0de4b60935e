// Marked graphs: who must have acted how many records ago before somebody may act. Pure graphs;
// what the vertices are is known elsewhere.
//
// Every edge from a to b with t tokens says: record r of b waits for record r - t of a. A cycle
// whose edges have no token waits for itself; and no run is faster than its slowest cycle: as much
// time as its vertices take together, for as many records as it has tokens.
//
// Source: Commoner, Holt, Even, Pnueli, Marked directed graphs, 1971; Ramamoorthy and Ho, 1980 (the
// rate).
#pragma once

#include <span>
#include <vector>

namespace tessera {

struct MarkedEdge {
  int from = 0;
  int to = 0;
  int tokens = 0;  // >= 0
  int label = 0;   // the caller's
};

struct MarkedGraph {
  int vertices = 0;  // numbered from 0
  std::vector<MarkedEdge> edges;
};

/// The edges of a cycle that has no token, in its order; none when every cycle has one.
///   time  O(vertices + edges)
std::vector<MarkedEdge> find_stuck_cycle(const MarkedGraph& graph);

/// The cycle with the most time a token.
struct SlowestCycle {
  double period = 0;  // time a record: 0 when there is no cycle
  std::vector<MarkedEdge> edges;
};

/// How long a record takes at least, and at most when nobody else is waited for.
///
///   times     of the acts, by vertex; >= 0
///   requires  every cycle has a token
///   source    Howard's policy iteration for the maximal cycle ratio (Cochet-Terrasson et al.,
///   1998)
SlowestCycle find_slowest_cycle(const MarkedGraph& graph, std::span<const double> times);

}  // namespace tessera
