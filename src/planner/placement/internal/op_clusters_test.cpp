#include "planner/placement/internal/op_clusters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "planner/placement/placement_search.h"
#include "planner/placement/testing/slow_devices.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

std::vector<std::string> op_clusters(const Graph& graph) {
  return to_text(graph, op_clusters_of(graph, no_shared_decisions(graph)));
}

using Names = std::vector<std::string>;

TEST(OpClusters, HaveTheMovesOfWhatAProductReads) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.reshape(builder.input("x", f32({8, 2, 2})), {8, 4}, "view");
  const ValueId w = builder.transpose(builder.input("w", f32({4, 4})), {1, 0}, "t");
  graph.add_output("y", builder.dot(x, w, "mk,kn->mn", "mm"));
  EXPECT_EQ(op_clusters(graph), (Names{"view t mm"}));
}

TEST(OpClusters, HaveTheMovesAfterWhatTheyCompute) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId y = builder.unary("tanh", x, "first");
  const ValueId turned = builder.transpose(y, {1, 0}, "t");
  graph.add_output("y", builder.dot(turned, x, "km,mn->kn", "mm"));
  // t reads what its op cluster computes, so the product after it begins the next op cluster.
  EXPECT_EQ(op_clusters(graph), (Names{"first t"}));
}

TEST(OpClusters, EndAtWhatTwoGroupsRead) {
  Graph graph;
  Builder builder(graph);
  const ValueId t = builder.transpose(builder.input("x", f32({4, 4})), {1, 0}, "t");
  graph.add_output("y", builder.dot(t, t, "mk,kn->mn", "mm"));
  EXPECT_EQ(op_clusters(graph), (Names{"t mm"}));  // one group, twice
  graph.add_output("z", builder.reduce_sum(t, {0}, "sum"));
  EXPECT_EQ(op_clusters(graph), Names{});
}

TEST(OpClusters, EndAtWhatIsSmallerThanWhatItReads) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.reduce_sum(builder.input("x", f32({8, 4, 4})), {0}, "sum");
  const ValueId turned = builder.transpose(x, {1, 0}, "turned");
  const ValueId part = builder.slice(turned, {0, 0}, {2, 4}, {1, 1}, "part");
  graph.add_output("y", builder.reshape(part, {8}, "flat"));
  EXPECT_EQ(op_clusters(graph), (Names{"sum turned part"}));  // 64 bytes, then 32
}

TEST(OpClusters, EndAtTheGraphsResultsAndAtAnotherRole) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.transpose(builder.input("x", f32({4, 4})), {1, 0}, "t");
  const ValueId y = builder.transpose(x, {1, 0}, "u");
  EXPECT_EQ(op_clusters(graph), (Names{"t u"}));
  graph.add_output("x", x);
  EXPECT_EQ(op_clusters(graph), Names{});
  const OpId v = graph.add_op("v", "tanh", {}, {y}, {f32({4, 4})}, Role::kBackward);
  graph.add_output("v", graph.op(v).outputs.front());
  EXPECT_EQ(op_clusters(graph), Names{});
}

TEST(OpClusters, DoNotHaveOpsUnderConstraints) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({4, 4}));
  const ValueId a = builder.unary("tanh", x, "a");
  const ValueId b = builder.unary("tanh", a, "b");
  graph.add_output("c", builder.unary("tanh", b, "c"));
  EXPECT_EQ(op_clusters(graph), (Names{"a b c"}));
  SearchConstraints constraints;
  constraints.canonical_placements[b.index] = {DistAttr::replicated(mesh_of("x=2"), 2)};
  EXPECT_EQ(to_text(graph, op_clusters_of(graph, no_shared_decisions(graph), constraints)),
            Names{});
}

// The last op of a layer and the first of the next one could be one kernel, but not in all layers.
TEST(OpClusters, OfTiedLayersDoNotLeadIntoTheNextOne) {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input("x", f32({8, 8}));
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "blocks." + std::to_string(layer) + ".";
    const ValueId w = builder.variable(name + "w", f32({8, 8}), Initializer::normal(0, 0.02));
    const ValueId y =
        builder.dot(builder.unary("tanh", x, name + "in"), w, "mk,kn->mn", name + "dot");
    x = builder.unary("exp", y, name + "out");
  }
  graph.add_output("y", x);
  for (const std::string& op_cluster :
       to_text(graph, op_clusters_of(graph, shared_decisions_of(graph))))
    for (int layer = 0; layer < 3; ++layer) {
      const std::string name = "blocks." + std::to_string(layer) + ".";
      const bool has_layer = op_cluster.find(name) != std::string::npos;
      EXPECT_TRUE(!has_layer || op_cluster.find("blocks." + std::to_string((layer + 1) % 3) +
                                                ".") == std::string::npos)
          << op_cluster;
    }
}

// The contracted dim of 4096 is divided and the result, 32 x 32, is summed before the nonlinearity:
// an exchange inside of the op cluster.
TEST(OpClusterStrategies, HaveTheExchangeOfAPartialSum) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({2, 65536}));
  const ValueId w = builder.variable("w", f32({65536, 2}), Initializer::normal(0, 0.02));
  const ValueId y = builder.dot(x, w, "mk,kn->mn", "dot");
  graph.add_output("y", builder.unary("tanh", y, "tanh"));
  EXPECT_EQ(op_clusters(graph), (Names{"dot tanh"}));
  const auto result = search_placements(graph, mesh_of("x=4"), model_of(1e9, 1e9));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(to_text(result->sharded.at(*graph.find_value("w"))), "[@x, *]");
}

// A weight that both operands of a sum hold: it is read once, in one placement.
TEST(OpClusterStrategies, ReadAValueInOnePlacement) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({64, 64}));
  const ValueId a = builder.unary("tanh", x, "a");
  graph.add_output("y", builder.add(a, x, "y"));
  const auto mesh = mesh_of("x=4");
  const CostModel cost = model_of(1e9, 1e9);
  const SearchProblem clustered(graph, mesh, cost, no_shared_decisions(graph));
  const SearchProblem single(graph, mesh, cost, no_shared_decisions(graph), {.op_clusters = false});
  EXPECT_EQ(clustered.problem().nodes(), 2);  // x, {a y}
  EXPECT_EQ(single.problem().nodes(), 4);     // x, its copy, a, y
}

TEST(OpClusterStrategies, BeyondTheLimitAreCounted) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({64, 64, 64}));
  graph.add_output("y", builder.unary("exp", builder.unary("tanh", x, "a"), "y"));
  const auto mesh = mesh_of("x=2,y=2");
  const CostModel cost = model_of(1e9, 1e9);
  // Each of two axes divides one of three dims or none: 16, of which 15 divide.
  const SearchProblem all(graph, mesh, cost, no_shared_decisions(graph));
  EXPECT_EQ(all.dropped_strategies(), 0);
  const SearchProblem few(graph, mesh, cost, no_shared_decisions(graph), {.max_strategies = 5});
  EXPECT_EQ(few.dropped_strategies(), 11);
}

}  // namespace
}  // namespace tessera
