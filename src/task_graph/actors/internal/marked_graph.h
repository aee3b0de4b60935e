// Marked graphs: which vertices must have acted, and how many iterations ago, before a vertex may
// act. This file knows graphs only, not what the vertices are.
//
// An edge from a to b with t tokens means that iteration i of b waits for iteration i - t of a. A
// cycle without a token is a deadlock. No run is faster than its slowest cycle: the sum of the
// times of its vertices, divided by its tokens.
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
  int label = 0;   // for the use of the caller
};

struct MarkedGraph {
  int vertices = 0;  // numbered from 0
  std::vector<MarkedEdge> edges;
};

/// The edges of a cycle that has no token, in the order of the cycle; empty when every cycle has
/// one.
///   time  O(vertices + edges)
std::vector<MarkedEdge> find_stuck_cycle(const MarkedGraph& graph);

/// The cycle with the largest time per token.
struct SlowestCycle {
  double period = 0;  // time per iteration; 0 when there is no cycle
  std::vector<MarkedEdge> edges;
};

/// The least time of an iteration in the steady state; it is reached when acts wait for nothing
/// else.
///
///   times     of the acts, by vertex; >= 0
///   requires  every cycle has a token
///   source    Howard's policy iteration for the maximum cycle ratio (Cochet-Terrasson et al.,
///             1998)
SlowestCycle find_slowest_cycle(const MarkedGraph& graph, std::span<const double> times);

}  // namespace tessera
