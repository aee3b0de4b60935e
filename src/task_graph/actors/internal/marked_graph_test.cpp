#include "task_graph/actors/internal/marked_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace tessera {
namespace {

using testing::ElementsAre;

std::vector<int> vertices_of(const std::vector<MarkedEdge>& cycle) {
  std::vector<int> vertices;
  for (const MarkedEdge& edge : cycle) vertices.push_back(edge.from);
  return vertices;
}

TEST(MarkedGraph, ACycleWithoutTokenIsStuck) {
  // 0 -> 1 -> 2 -> 1: the first edge leads into the cycle and is not part of it.
  const std::vector<MarkedEdge> cycle =
      find_stuck_cycle({3, {{0, 1, 0, 0}, {1, 2, 0, 0}, {2, 1, 0, 7}}});
  EXPECT_THAT(vertices_of(cycle), ElementsAre(1, 2));
  EXPECT_EQ(cycle.back().label, 7);
}

TEST(MarkedGraph, OneTokenOnACycleLetsItRun) {
  EXPECT_TRUE(find_stuck_cycle({2, {{0, 1, 0, 0}, {1, 0, 1, 0}}}).empty());
  EXPECT_EQ(find_stuck_cycle({2, {{0, 1, 0, 0}, {1, 0, 1, 0}, {1, 0, 0, 0}}}).size(), 2u);
}

TEST(MarkedGraph, AnActThatWaitsForItselfIsStuck) {
  EXPECT_THAT(vertices_of(find_stuck_cycle({1, {{0, 0, 0, 0}}})), ElementsAre(0));
  EXPECT_TRUE(find_stuck_cycle({1, {{0, 0, 1, 0}}}).empty());
}

TEST(MarkedGraph, WithoutCyclesThereIsNoPeriod) {
  const std::vector<double> times{1, 2};
  EXPECT_EQ(find_slowest_cycle({2, {{0, 1, 0, 0}}}, times).period, 0);
  EXPECT_EQ(find_slowest_cycle({0, {}}, {}).period, 0);
}

TEST(MarkedGraph, ASlotMoreLetsProducerAndReaderOverlap) {
  // There are a producer of 2 and a reader of 3 units; each does one act at a time. With one slot
  // an iteration takes 2 + 3; with two slots, the largest of (2 + 3) / 2, 2, 3.
  const std::vector<double> times{2, 3};
  const auto with_slots = [](int slots) {
    return MarkedGraph{2, {{0, 0, 1, 0}, {1, 1, 1, 0}, {0, 1, 0, 0}, {1, 0, slots, 0}}};
  };
  EXPECT_DOUBLE_EQ(find_slowest_cycle(with_slots(1), times).period, 5);
  EXPECT_DOUBLE_EQ(find_slowest_cycle(with_slots(2), times).period, 3);
  EXPECT_THAT(vertices_of(find_slowest_cycle(with_slots(2), times).edges), ElementsAre(1));
}

/// The largest time per token over all simple cycles, by enumeration.
double slowest_by_trying(const MarkedGraph& graph, const std::vector<double>& times) {
  double slowest = 0;
  std::vector<bool> on_path(static_cast<size_t>(graph.vertices), false);
  std::function<void(int, int, double, int)> walk = [&](int root, int v, double time, int tokens) {
    on_path[v] = true;
    time += times[v];
    for (const MarkedEdge& edge : graph.edges) {
      if (edge.from != v) continue;
      if (edge.to == root) slowest = std::max(slowest, time / (tokens + edge.tokens));
      if (edge.to > root && !on_path[edge.to]) walk(root, edge.to, time, tokens + edge.tokens);
    }
    on_path[v] = false;
  };
  for (int root = 0; root < graph.vertices; ++root) walk(root, root, 0, 0);
  return slowest;
}

TEST(MarkedGraph, TheSlowestOfAllCyclesIsFound) {
  int cyclic = 0;  // graphs that have a cycle
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 dice(seed);
    MarkedGraph graph{2 + static_cast<int>(dice() % 6), {}};
    std::vector<double> times;
    for (int v = 0; v < graph.vertices; ++v) times.push_back(static_cast<double>(dice() % 10));
    for (unsigned e = 0; e < 3u * static_cast<unsigned>(graph.vertices); ++e) {
      const int from = static_cast<int>(dice() % static_cast<unsigned>(graph.vertices));
      const int to = static_cast<int>(dice() % static_cast<unsigned>(graph.vertices));
      // Backward edges always have a token, so that there is no deadlock.
      graph.edges.push_back({from, to, static_cast<int>(dice() % 3) + (to <= from ? 1 : 0), 0});
    }
    const SlowestCycle found = find_slowest_cycle(graph, times);
    ASSERT_NEAR(found.period, slowest_by_trying(graph, times), 1e-9) << "seed " << seed;
    double time = 0, tokens = 0;
    for (const MarkedEdge& edge : found.edges) {
      time += times[edge.from];
      tokens += edge.tokens;
    }
    if (found.edges.empty()) continue;
    ASSERT_NEAR(time / tokens, found.period, 1e-9) << "seed " << seed;
    ++cyclic;
  }
  EXPECT_GT(cyclic, 0);
}

}  // namespace
}  // namespace tessera
