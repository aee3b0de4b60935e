#include "compiler/rewrite/internal/min_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tessera {
namespace {

using ::testing::ElementsAre;

TEST(FlowNetwork, IsCutAtItsNarrowestEdge) {
  FlowNetwork network(4);
  network.add_edge(0, 1, 5);
  network.add_edge(1, 2, 2);
  network.add_edge(2, 3, 7);
  EXPECT_THAT(network.sink_side(0, 3), ElementsAre(false, false, true, true));
}

TEST(FlowNetwork, OfEqualCutsHasTheOneNextToTheSink) {
  FlowNetwork network(4);
  for (int i = 0; i < 3; ++i) network.add_edge(i, i + 1, 2);
  EXPECT_THAT(network.sink_side(0, 3), ElementsAre(false, false, false, true));
}

TEST(FlowNetwork, TakesFlowBackFromAPathThatBlocksTwoOthers) {
  FlowNetwork network(6);  // 0 -> 1 -> 4 -> 5 is the shortest; 1 -> 2 and 3 -> 4 need its edges
  network.add_edge(0, 1, 1);
  network.add_edge(1, 4, 1);
  network.add_edge(4, 5, 1);
  network.add_edge(0, 3, 1);
  network.add_edge(3, 4, 1);
  network.add_edge(1, 2, 1);
  network.add_edge(2, 5, 1);
  EXPECT_THAT(network.sink_side(0, 5), ElementsAre(false, false, false, false, false, true));
}

struct RandomEdge {
  int from, to;
  int64_t capacity;
};

int64_t capacity_of(const std::vector<RandomEdge>& edges, unsigned sink_side) {
  int64_t sum = 0;
  for (const RandomEdge& edge : edges)
    if (!(sink_side >> edge.from & 1U) && (sink_side >> edge.to & 1U)) sum += edge.capacity;
  return sum;
}

TEST(FlowNetwork, CutsRandomNetworksAsWellAsAnyOtherCut) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int nodes = 2 + static_cast<int>(random() % 7);
    std::vector<RandomEdge> edges;
    FlowNetwork network(nodes);
    for (unsigned i = 0; i < 2U * nodes + random() % 8; ++i) {
      const RandomEdge edge{static_cast<int>(random() % nodes), static_cast<int>(random() % nodes),
                            static_cast<int64_t>(random() % 10)};
      edges.push_back(edge);
      network.add_edge(edge.from, edge.to, edge.capacity);
    }
    unsigned found = 0;
    const std::vector<bool> side = network.sink_side(0, nodes - 1);
    for (int i = 0; i < nodes; ++i) found |= static_cast<unsigned>(side[i]) << i;
    const unsigned last = 1U << (nodes - 1);
    EXPECT_TRUE((found & last) && !(found & 1U)) << "seed " << seed;
    for (unsigned other = last; other < 2 * last; other += 2)
      EXPECT_LE(capacity_of(edges, found), capacity_of(edges, other)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera
