#include "base/solver/least_changes.h"

#include <algorithm>
#include <tuple>

namespace tessera::solver {

std::vector<Change> least_changes(const Problem& problem, const Assignment& assignment) {
  // By node and strategy: the cost of what depends on it. Forbidden entries keep their numbers.
  std::vector<std::vector<Wide>> costs(problem.nodes());
  for (int32_t n = 0; n < problem.nodes(); ++n)
    for (Cost cost : problem.costs(problem.node(n))) costs[n].push_back(cost);
  for (int32_t e = 0; e < problem.edges(); ++e) {
    const Problem::Edge& edge = problem.edge(e);
    const std::span<const Cost> table = problem.costs(edge);
    const int32_t columns = problem.strategies(edge.b);
    for (int32_t s = 0; s < problem.strategies(edge.a); ++s)
      costs[edge.a][s] += table[s * columns + assignment[edge.b]];
    for (int32_t s = 0; s < columns; ++s)
      costs[edge.b][s] += table[assignment[edge.a] * columns + s];
  }
  std::vector<std::tuple<Wide, int32_t, int32_t>> changes;  // added cost, node, strategy
  for (int32_t n = 0; n < problem.nodes(); ++n) {
    const Wide present = costs[n][assignment[n]];
    costs[n][assignment[n]] = kForbidden;
    const int32_t best = index_of_min(costs[n]);
    if (costs[n][best] < kForbidden) changes.emplace_back(costs[n][best] - present, n, best);
  }
  std::ranges::sort(changes);
  std::vector<Change> list;
  for (const auto& [cost, node, strategy] : changes) list.push_back({node, strategy});
  return list;
}

}  // namespace tessera::solver
