#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "cluster/mapping/internal/methods.h"
#include "cluster/mapping/testing/trees.h"

namespace tessera {
namespace {

using namespace mapping_testing;

/// Rings of 4 on machines of 4, of which each has a rank of each ring at first.
MappingProblem scattered_rings(const std::vector<int>& fans) {
  const DeviceTree tree{Cluster(tree_of(fans))};
  const int rings = tree.size() / 4;
  std::vector<RankTraffic> traffic;
  for (Rank rank = 0; rank < 4 * rings; ++rank)
    traffic.push_back({rank, (rank + rings) % (4 * rings), Bytes(1'000'000), 0});
  const std::vector<int> need(4 * rings, 0);
  return {RankGraph(4 * rings, traffic), tree, need, {{true}}};
}

TEST(Annealing, PutsScatteredRingsOnMachines) {
  // 16 rings of 4, each of which fits a machine: all traffic can stay inside of machines.
  const MappingProblem problem = scattered_rings({4, 4, 4});
  Places places(problem.graph.size());
  std::iota(places.begin(), places.end(), 0);
  const double before = places_cost(problem, places);
  EXPECT_TRUE(anneal(problem, places, 20'000'000));
  EXPECT_EQ(std::set<Place>(places.begin(), places.end()).size(), places.size());
  const double all_inside =
      static_cast<double>(problem.graph.size()) * 1e6 * problem.tree.link(0, 1).per_byte;
  EXPECT_LT(places_cost(problem, places), before);
  EXPECT_NEAR(places_cost(problem, places), all_inside, 1e-9 * all_inside);
}

TEST(Annealing, LeavesAMappingThatNoneIsCheaperThan) {
  const MappingProblem problem = scattered_rings({4, 4});
  Places places(problem.graph.size());
  for (Rank rank = 0; rank < problem.graph.size(); ++rank) places[rank] = rank % 4 * 4 + rank / 4;
  const Places first = places;
  EXPECT_FALSE(anneal(problem, places, 1'000'000));
  EXPECT_EQ(places, first);
}

}  // namespace
}  // namespace tessera
