// Nets of two articles, and what they say of them (facts and figures only).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "planner/placement/placement_search.h"
#include "planner/placement/strategies.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

struct Searched {
  Graph graph;
  PlacementResult result;

  std::string canonical_placement(std::string_view name) const {
    return to_text(result.sharded.at(*graph.find_value(name)));
  }
  std::string made(std::string_view name) const {
    const OpId op = graph.value(*graph.find_value(name)).producer;
    return to_text(output_attr(view(graph, graph.op(op)), result.sharded.rules[op.index],
                               result.sharded.at(op), 0));
  }
};

Searched published_examples_searched(Graph graph, std::string_view mesh, const CostModel& cost) {
  std::optional<PlacementResult> result = search_placements(graph, mesh_of(mesh), cost);
  EXPECT_TRUE(result.has_value());
  return {std::move(graph), std::move(*result)};
}

// ---- EasyDist: view, transpose and product, on a mesh found as (1, 2) ----

/// input f32[128,3,32,32] -> view [128,3072]; weight f32[64,3072] -> t [3072,64]; mm [128,64].
Graph easydist_net() {
  Graph graph;
  Builder builder(graph);
  const ValueId input = builder.input("input", f32({128, 3, 32, 32}));
  const ValueId weight = builder.variable("weight", f32({64, 3072}), Initializer::normal(0, 0.02));
  const ValueId flat = builder.reshape(input, {128, 3072}, "view");
  const ValueId turned = builder.transpose(weight, {1, 0}, "t");
  graph.add_output("result", builder.dot(flat, turned, "mk,kn->mn", "mm"));
  return graph;
}

std::vector<std::string> strategies(const Graph& graph, std::string_view op_name,
                                    const MeshPtr& mesh) {
  OpRules rules;
  RuleCache cache(catalogue_rule);
  for (const Op& op : graph.ops()) rules.push_back(cache.find(op.kind, view(graph, op)));
  const OpId op = graph.value(*graph.find_value(op_name)).producer;
  const std::vector<bool> partial(graph.op(op).inputs.size(), false);
  std::vector<std::string> list;
  for (const OpSharding& sharding : strategies_of(rules[op.index], mesh, partial))
    list.push_back(to_text(output_attr(view(graph, graph.op(op)), rules[op.index], sharding, 0)));
  std::ranges::sort(list);
  return list;
}

// "both dims may be cut, so its strategies are Shard(0), Shard(1), Replicate: three", each extended
// by Replicate on the axis of extent 1. The product has one more: partial sums.
TEST(EasyDistNet, HasTheStrategiesOfTheArticle) {
  const Graph graph = easydist_net();
  const MeshPtr mesh = mesh_of("a=1,b=2");
  EXPECT_EQ(strategies(graph, "t", mesh),
            (std::vector<std::string>{"[*, *]", "[*, @b]", "[@b, *]"}));
  EXPECT_EQ(strategies(graph, "mm", mesh),
            (std::vector<std::string>{"[*, *]", "[*, *] {partial sum: b}", "[*, @b]", "[@b, *]"}));
}

// "view", "t" and "mm": each of the first two is read by one op and not smaller than what it reads,
// and the product, with two producers, is the root.
TEST(EasyDistNet, IsOneOpCluster) {
  const Graph graph = easydist_net();
  EXPECT_EQ(to_text(graph, op_clusters_of(graph, no_shared_decisions(graph))),
            std::vector<std::string>{"view t mm"});
}

// Of the strategies of the root, those that all three take without an exchange: rows of the input,
// rows of the weight, and none divided. The contracted dim has 3 x 32 x 32 elements; its halves
// divide no dim of the input evenly in two parts that the view can read, so its sum is not there.
TEST(EasyDistNet, HasTheStrategiesOfItsRootInTheOpCluster) {
  const Graph graph = easydist_net();
  CostModel cost;
  cost.links.any = {Seconds(0), 1e9};
  const SearchProblem search(graph, mesh_of("a=1,b=2"), cost, no_shared_decisions(graph));
  ASSERT_EQ(search.problem().nodes(), 3);  // input, weight and the op cluster
  EXPECT_EQ(search.problem().strategies(0), 3);
}

// The article's objective is communication + 1e-8 memory: prices here are those of links, and the
// bytes of kernels at a negligible rate. Division by rows reads 128 * 3072 / 2 + 64 * 3072
// elements, by columns 128 * 3072 + 64 * 3072 / 2, by the contracted dim fewer, but then the result
// is summed. Nothing is sent when the rows are divided.
TEST(EasyDistNet, HasTheOptimumOfItsObjective) {
  CostModel cost;
  cost.device = {.flops_per_second = 1e30,
                 .bytes_per_second = 1e17,
                 .copied_bytes_per_second = 1e17,
                 .launch = Seconds(0)};
  cost.links.any = {Seconds(0), 1e9};
  const Searched found = published_examples_searched(easydist_net(), "a=1,b=2", cost);
  EXPECT_EQ(found.canonical_placement("input"), "[@b, *, *, *]");
  EXPECT_EQ(found.made("view"), "[@b, *]");
  EXPECT_EQ(found.canonical_placement("weight"), "[*, *]");
  EXPECT_EQ(found.made("mm"), "[@b, *]");
  EXPECT_TRUE(found.result.is_optimal);
  EXPECT_LT(found.result.time.value(), 1e-9);  // one element over the link takes 4e-9
}

// ---- OneFlow, figure 7: Y0 = A0 B0, Y1 = Y0 B1 ----

/// Forward and backward of the loss |Y1|^2 / 2, whose gradient is Y1, with plain gradient descent.
Graph published_examples_two_products(int64_t rows, int64_t inner, int64_t middle,
                                      int64_t columns) {
  Graph graph;
  Builder builder(graph);
  const ValueId a0 = builder.input("a0", f32({rows, inner}));
  const ValueId b0 = builder.variable("b0", f32({inner, middle}), Initializer::normal(0, 0.02));
  const ValueId b1 = builder.variable("b1", f32({middle, columns}), Initializer::normal(0, 0.02));
  const ValueId y0 = builder.dot(a0, b0, "mk,kn->mn", "y0");
  const ValueId y1 = builder.dot(y0, b1, "mk,kn->mn", "y1");
  const ValueId g1 = builder.dot(y0, y1, "mk,mn->kn", "b1.grad");
  const ValueId g = builder.dot(y1, b1, "mn,kn->mk", "y0.grad");
  const ValueId g0 = builder.dot(a0, g, "mk,mn->kn", "b0.grad");
  graph.set_next(b0, builder.sub(b0, g0, "b0.next"));
  graph.set_next(b1, builder.sub(b1, g1, "b1.next"));
  return graph;
}

CostModel slow_devices(double copied_bytes_per_second) {
  CostModel cost;
  cost.device = {.flops_per_second = 1e9,
                 .bytes_per_second = 1e9,
                 .copied_bytes_per_second = copied_bytes_per_second,
                 .launch = Seconds(1e-7)};
  cost.links.any = {Seconds(1e-7), 1e9};
  return cost;
}

// Weights of 10 * 50 and 50 * 10 elements and 65536 rows: the gradients are 4 KB, Y0 13 MB.
TEST(OneFlowProducts, OfALargeBatchAndSmallWeightsAreDataParallel) {
  const Searched found = published_examples_searched(
      published_examples_two_products(65536, 10, 50, 10), "x=2", slow_devices(1e9));
  EXPECT_EQ(found.made("y0"), "[@x, *]");
  EXPECT_EQ(found.made("y1"), "[@x, *]");
  EXPECT_EQ(found.canonical_placement("a0"), "[@x, *]");
}

// Eight rows and weights of 16 MB each: Y0 and Y1 are 64 KB. Every weight is divided where it is
// kept, and no gradient of it is sent.
TEST(OneFlowProducts, OfASmallBatchAndLargeWeightsAreModelParallel) {
  const Searched found = published_examples_searched(
      published_examples_two_products(8, 2048, 2048, 2048), "x=2", slow_devices(1e9));
  EXPECT_NE(found.canonical_placement("b0"), "[*, *]");
  EXPECT_NE(found.canonical_placement("b1"), "[*, *]");
  EXPECT_EQ(found.made("b0.grad"), found.canonical_placement("b0"));
  EXPECT_EQ(found.made("b1.grad"), found.canonical_placement("b1"));
}

// The article's hybrid: the first product by rows, the second by columns, one gather of Y0 between
// them. Elements that are sent, of m = 2048, k = 64, n = 64, l = 16384: by rows throughout k n + n
// l; the hybrid k n + m n, and with the contracted dim of the first product divided 2 m n: k < m <
// l. By columns throughout it is m n alone, but then A0 is copied whole on every rank: m k / 2 more
// at a tenth of the rate of the link.
TEST(OneFlowProducts, OfLargeDataAndALargeSecondWeightAreTheHybrid) {
  const Searched found = published_examples_searched(
      published_examples_two_products(2048, 64, 64, 16384), "x=2", slow_devices(1e8));
  EXPECT_EQ(found.canonical_placement("a0"), "[@x, *]");
  EXPECT_EQ(found.made("y0"), "[@x, *]");
  EXPECT_EQ(found.made("y1"), "[*, @x]");
  EXPECT_EQ(found.canonical_placement("b1"), "[*, @x]");
}

}  // namespace
}  // namespace tessera
