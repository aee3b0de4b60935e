#include "planner/placement/internal/fusion/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "base/testing/tensor_types.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

std::vector<std::string> groups_of(const Graph& graph) {
  std::vector<std::string> list;
  for (const FusionGroup& group : fusion_groups(graph).groups)
    list.push_back(to_text(graph, group));
  return list;
}

using Groups = std::vector<std::string>;

TEST(FusionGroups, JoinAnElementwiseChainWithItsBroadcasts) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId b = builder.input("b", f32({4}));
  const ValueId rows = builder.broadcast(b, {8, 4}, {1}, "rows");
  graph.add_output("y", builder.unary("tanh", builder.add(x, rows, "sum"), "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: rows sum y"}));
  EXPECT_EQ(fusion_groups(graph).groups.begin()->reason, "element-wise over f32[8,4]");
}

TEST(FusionGroups, LeaveOutWhatReadsTheSameElementsInAnotherOrder) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.unary("tanh", builder.input("x", f32({8, 8})), "x1");
  graph.add_output("y", builder.add(x, builder.transpose(x, {1, 0}, "turned"), "y"));
  // x1 and y are joined by an edge, but the path through `turned` leaves them and comes back.
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: x1", "alone: turned", "element-wise: y"}));
}

// A vector along rows and along columns: the elements at (i, j) need x at i and at j.
TEST(FusionGroups, DoNotJoinTwoBroadcastsOfOneVectorAlongUnlikeDims) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8}));
  const ValueId a = builder.broadcast(x, {8, 8}, {0}, "a");
  const ValueId b = builder.broadcast(x, {8, 8}, {1}, "b");
  graph.add_output("y", builder.mul(a, b, "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: a y", "element-wise: b"}));
}

TEST(FusionGroups, OfALayerNormAreOne) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({2, 8, 4}));
  const ValueId mean = builder.mul_scalar(builder.reduce_sum(x, {2}, "sum"), -0.25, "mean");
  const ValueId centered =
      builder.add(x, builder.broadcast(mean, {2, 8, 4}, {0, 1}, "mean_rows"), "centered");
  const ValueId square = builder.unary("square", centered, "square");
  const ValueId scale = builder.unary("rsqrt", builder.reduce_sum(square, {2}, "squares"), "scale");
  const ValueId scale_rows = builder.broadcast(scale, {2, 8, 4}, {0, 1}, "scale_rows");
  graph.add_output("y", builder.mul(centered, scale_rows, "y"));
  EXPECT_EQ(groups_of(graph),
            (Groups{"rows: sum mean mean_rows centered square squares scale scale_rows y"}));
}

TEST(FusionGroups, OfASoftmaxOfRowsAreOne) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId largest = builder.reduce(ReduceOp::kMax, x, {1}, "most");
  const ValueId shifted = builder.sub(x, builder.broadcast(largest, {8, 4}, {0}, "peak_rows"), "s");
  const ValueId e = builder.unary("exp", shifted, "e");
  const ValueId sum = builder.broadcast(builder.reduce_sum(e, {1}, "sum"), {8, 4}, {0}, "sum_rows");
  graph.add_output("y", builder.div(e, sum, "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"rows: most peak_rows s e sum sum_rows y"}));
}

// The second reduction is over columns of what the first one has normalized by rows.
TEST(FusionGroups, DoNotJoinReductionsOverUnlikeDims) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4, 2}));
  const ValueId one = builder.reduce_sum(x, {2}, "last");
  graph.add_output("y", builder.reduce_sum(one, {1}, "middle"));
  EXPECT_EQ(groups_of(graph), (Groups{"rows: last", "rows: middle"}));
}

TEST(FusionGroups, DoNotJoinAReductionOfColumns) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.unary("tanh", builder.input("x", f32({8, 4})), "x1");
  graph.add_output("y", builder.reduce_sum(x, {0}, "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: x1", "alone: y"}));
}

// All of x is reduced before the first element of y can be computed.
TEST(FusionGroups, EndAfterASumOfAllElements) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8}));
  const ValueId norm =
      builder.unary("rsqrt", builder.reduce_sum(builder.unary("square", x, "q"), {0}, "n"), "r");
  graph.add_output("y", builder.mul(x, builder.broadcast(norm, {8}, {}, "rows"), "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"rows: q n r", "element-wise: rows y"}));
}

/// tanh(x) w + b, its nonlinearity, and a second product.
Graph two_products() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId w = builder.input("w", f32({4, 6}));
  const ValueId v = builder.input("v", f32({6, 4}));
  const ValueId dot = builder.dot(builder.unary("tanh", x, "before"), w, "mk,kn->mn", "dot");
  const ValueId rows = builder.broadcast(builder.input("b", f32({6})), {8, 6}, {1}, "rows");
  const ValueId h = builder.unary("exp", builder.add(dot, rows, "biased"), "h");
  graph.add_output("y", builder.dot(h, v, "mk,kn->mn", "y"));
  return graph;
}

TEST(FusionGroups, OfAProductHaveItsPrologueAndItsEpilogue) {
  EXPECT_EQ(groups_of(two_products()), (Groups{"product: before dot rows biased h", "product: y"}));
}

TEST(FusionGroups, DoNotComputeAnOperandForAProductThatAnotherOpReads) {
  Graph graph = two_products();
  graph.add_output("saved", *graph.find_value("before"));
  EXPECT_EQ(groups_of(graph),
            (Groups{"element-wise: before", "product: dot rows biased h", "product: y"}));
}

TEST(FusionGroups, DoNotSampleInThePrologueOfAProduct) {
  Graph graph;
  Builder builder(graph);
  const ValueId sample =
      builder.random_uniform(builder.input("step", {DType::kI32, {}}), {8, 4}, "noise");
  graph.add_output("y", builder.dot(sample, builder.input("w", f32({4, 4})), "mk,kn->mn", "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: noise", "product: y"}));
}

TEST(FusionGroups, DoNotReduceTheRowsOfAProductInItsEpilogue) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({8, 4}));
  const ValueId dot = builder.dot(x, builder.input("w", f32({4, 4})), "mk,kn->mn", "dot");
  graph.add_output("y", builder.reduce_sum(dot, {1}, "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"product: dot", "rows: y"}));
}

// It reduces rows that both operands have, but which rows of the result they go to is data.
TEST(FusionGroups, DoNotTakeAScatterForAProduct) {
  Graph graph;
  Builder builder(graph);
  const ValueId ids = builder.input("ids", {DType::kI32, {8}});
  const ValueId x = builder.unary("tanh", builder.input("x", f32({8, 4})), "x1");
  graph.add_output("y", builder.scatter_add(ids, x, 16, "y"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: x1", "alone: y"}));
}

TEST(FusionGroups, HaveOneRole) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.unary("tanh", builder.input("x", f32({8})), "forward");
  graph.add_op("backward", "tanh", {}, {x}, {f32({8})}, Role::kBackward);
  graph.add_output("y", *graph.find_value("backward"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: forward", "element-wise: backward"}));
}

// The zeros belong to neither sum: their kernel would have to run before both.
TEST(FusionGroups, LeaveAConstantThatTwoOfThemReadOnItsOwn) {
  Graph graph;
  Builder builder(graph);
  const ValueId zeros = builder.constant(f32({8}), 0, "zeros");
  graph.add_output("a", builder.maximum(builder.input("x", f32({8})), zeros, "a"));
  graph.add_output("b", builder.maximum(builder.input("y", f32({8})), zeros, "b"));
  EXPECT_EQ(groups_of(graph),
            (Groups{"element-wise: zeros", "element-wise: a", "element-wise: b"}));
}

// a0 -> b1 and b0 -> a1: the edges a0 -> a1 and b0 -> b1 may be joined one by one, not both.
TEST(FusionGroups, DoNotReadEachOther) {
  Graph graph;
  Builder builder(graph);
  const auto step = [&](ValueId x, const std::string& name) {
    return builder.transpose(x, {1, 0}, name);
  };
  const ValueId a0 = builder.unary("tanh", builder.input("a", f32({4, 4})), "a0");
  const ValueId b0 = builder.unary("tanh", builder.input("b", f32({4, 4})), "b0");
  graph.add_output("a1", builder.add(a0, step(b0, "b0.turned"), "a1"));
  graph.add_output("b1", builder.add(b0, step(a0, "a0.turned"), "b1"));
  EXPECT_EQ(groups_of(graph), (Groups{"element-wise: a0 a1", "element-wise: b0", "alone: b0.turned",
                                      "alone: a0.turned", "element-wise: b1"}));
}

/// Each op in one group of one role; nothing of what a group makes comes back to it through others.
void expect_a_partition_without_cycles(const Graph& graph) {
  const FusionGroups groups = fusion_groups(graph);
  std::set<int> seen;
  for (FusionGroupIndex index : groups.groups.indices())
    for (OpId op : groups.groups[index].ops) {
      EXPECT_TRUE(seen.insert(op.index).second);
      EXPECT_EQ(groups.at(op), index);
      EXPECT_EQ(graph.op(op).role, graph.op(groups.groups[index].ops.front()).role);
    }
  EXPECT_EQ(seen.size(), graph.ops().size());
  std::vector<std::set<int>> readers(groups.groups.size());
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    for (ValueId input : graph.ops()[i].inputs)
      if (const OpId producer = graph.value(input).producer; producer.index >= 0)
        if (groups.at(producer) != groups.at(OpId{i}))
          readers[groups.at(producer).value()].insert(groups.at(OpId{i}).value());
  // Groups that no remaining group reads from are taken away until none is left.
  std::vector<int> open(readers.size(), 0);
  for (const auto& list : readers)
    for (int reader : list) ++open[reader];
  std::vector<int> ready;
  for (size_t i = 0; i < open.size(); ++i)
    if (open[i] == 0) ready.push_back(static_cast<int>(i));
  size_t done = 0;
  for (; done < ready.size(); ++done)
    for (int reader : readers[ready[done]])
      if (--open[reader] == 0) ready.push_back(reader);
  EXPECT_EQ(done, readers.size());
}

Graph random_graph(int ops, std::mt19937& random) {
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  Graph graph;
  Builder builder(graph);
  std::vector<ValueId> values{builder.input("x", f32({6, 6})), builder.input("y", f32({6, 6}))};
  for (int i = 0; i < ops; ++i) {
    const ValueId a = values[below(values.size())], b = values[below(values.size())];
    switch (below(6)) {
      case 0: values.push_back(builder.dot(a, b, "mk,kn->mn")); break;
      case 1: values.push_back(builder.transpose(a, {1, 0})); break;
      case 2: {
        const auto dim = static_cast<int64_t>(below(2));
        const ValueId sum = builder.reduce_sum(a, {dim});
        values.push_back(builder.broadcast(sum, {6, 6}, {static_cast<int64_t>(below(2))}));
        break;
      }
      case 3: values.push_back(builder.unary("tanh", a)); break;
      default: values.push_back(builder.add(a, b));
    }
  }
  graph.add_output("result", values.back());
  return graph;
}

TEST(FusionGroups, OfRandomProgramsAreAPartitionWithoutCycles) {
  std::mt19937 random(20261126);
  size_t joined = 0;
  for (int i = 0; i < 300; ++i) {
    const Graph graph = random_graph(5 + i % 40, random);
    expect_a_partition_without_cycles(graph);
    joined += graph.ops().size() - fusion_groups(graph).groups.size();
  }
  EXPECT_GT(joined, 1000);
}

// ---- networks ----

std::string group_of(const Graph& graph, std::string_view op) {
  const FusionGroups groups = fusion_groups(graph);
  return to_text(graph, groups.groups[groups.at(*graph.find_op(op))]);
}

TEST(FusionGroups, OfAGptAreLayerNormsAndProductsWithTheirEpilogues) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = 32,
                                      .context = 8,
                                      .layers = 2,
                                      .width = 16,
                                      .heads = 2,
                                      .dropout = 0});
  const Graph graph = training_graph(network, {}, 4, 1);
  expect_a_partition_without_cycles(graph);
  EXPECT_EQ(group_of(graph, "blocks.1.ffn.up.dot"),
            "product: blocks.1.ffn.up.dot blocks.1.ffn.up.bias_rows blocks.1.ffn.up.biased "
            "blocks.1.ffn.gelu.square blocks.1.ffn.gelu.cubic blocks.1.ffn.gelu.slope "
            "blocks.1.ffn.gelu.angle blocks.1.ffn.gelu.gate blocks.1.ffn.gelu.gated");
  const std::string norm = group_of(graph, "blocks.1.norm2.variance_sum");
  for (const char* op : {"minus_mean_sum", "centered", "scale", "normal", "weighted", "biased"})
    EXPECT_NE((norm + " ").find("blocks.1.norm2." + std::string(op) + " "), std::string::npos)
        << norm;
}

TEST(FusionGroups, OfAResnetHaveNoCycle) {
  const Network network =
      network_of({.kind = "resnet", .image = {3, 8, 8}, .dropout = 0, .depth = 20});
  expect_a_partition_without_cycles(training_graph(network, {}, 4, 1));
}

}  // namespace
}  // namespace tessera
