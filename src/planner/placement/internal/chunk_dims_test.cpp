#include "planner/placement/internal/chunk_dims.h"

#include <gtest/gtest.h>

#include <string>

#include "base/testing/tensor_types.h"
#include "ir/ops/builder.h"
#include "planner/placement/search_problem.h"
#include "planner/placement/strategies.h"

namespace tessera {
namespace {

OpRules rules_of(const Graph& graph) {
  OpRules rules;
  RuleCache cache(catalogue_rule);
  for (const Op& op : graph.ops()) rules.push_back(cache.find(op.kind, view(graph, op)));
  return rules;
}

using Chunks = std::set<int64_t>;

Chunks chunks(const Graph& graph, std::string_view value, int dim) {
  return chunk_dims(graph, rules_of(graph)).of_value[graph.find_value(value)->index][dim];
}

/// y = x w, of which three slices of 8 columns are read.
Graph sliced_product(int64_t first) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", f32({4, 24}), Initializer::normal(0, 0.02));
  const ValueId y = builder.dot(builder.input("x", f32({6, 4})), w, "mk,kn->mn", "y");
  graph.add_output("q", builder.slice(y, {0, first}, {6, first + 8}, {1, 1}, "q"));
  graph.set_next(w, builder.mul_scalar(w, 0.5, "w.next"));
  return graph;
}

TEST(ChunkDims, LeadFromASliceToTheWeightAndItsNextValue) {
  const Graph graph = sliced_product(8);
  EXPECT_EQ(chunks(graph, "y", 1), Chunks{3});
  EXPECT_EQ(chunks(graph, "w", 1), Chunks{3});
  EXPECT_EQ(chunks(graph, "w.next", 1), Chunks{3});
  EXPECT_EQ(chunks(graph, "w", 0), Chunks{});
  EXPECT_EQ(chunks(graph, "x", 1), Chunks{});
  EXPECT_EQ(chunks(graph, "q", 1), Chunks{});
}

TEST(ChunkDims, AreNotThereWhereASliceIsNotOneOfEqualPieces) {
  const Graph graph = sliced_product(4);  // columns 4 to 12 of 24
  EXPECT_EQ(chunks(graph, "y", 1), Chunks{});
}

TEST(ChunkDims, LeadFromAConcatenationToItsReaders) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", f32({6, 4}));
  const ValueId both = builder.concat({x, builder.unary("tanh", x, "t")}, 1, "both");
  const ValueId w = builder.variable("w", f32({8, 3}), Initializer::normal(0, 0.02));
  graph.add_output("y", builder.dot(builder.unary("exp", both, "e"), w, "mk,kn->mn", "y"));
  EXPECT_EQ(chunks(graph, "e", 1), Chunks{2});
  EXPECT_EQ(chunks(graph, "w", 0), Chunks{2});
}

// Two pieces are put together at positions that are the queries of causal attention.
TEST(ChunkDims, AreNotThereWhereAKernelMustKnowWhereItsPartBegins) {
  const Graph graph = parse_graph(
      "input a: f32[1,3,1,2]\ninput k: f32[1,6,1,2]\ninput v: f32[1,6,1,2]\n"
      "q = concat(a, a) {dim=1}: f32[1,6,1,2]\n"
      "e = exp(q): f32[1,6,1,2]\n"
      "y = attention(q, k, v) {causal=true, scale=0.5}: f32[1,6,1,2], f32[1,1,6]\n"
      "output e = e\noutput y = y\n");
  EXPECT_EQ(chunks(graph, "e", 1), Chunks{2});
  EXPECT_EQ(chunks(graph, "y", 1), Chunks{});
}

// Parts of two ranks; 24 columns, or 8 of each of three chunks.
TEST(ChunkDims, AreStrategiesOfTheProduct) {
  const Graph graph = sliced_product(8);
  const OpRules rules = rules_of(graph);
  const OpId y = graph.value(*graph.find_value("y")).producer;
  const auto mesh = std::make_shared<const Mesh>(parse_mesh("x=2"));
  const ChunkDims dims = chunk_dims(graph, rules);
  std::vector<std::string> canonical_placements;
  for (const OpSharding& sharding :
       strategies_of(rules[y.index], mesh, {false, false}, dims.of_op[y.index]))
    canonical_placements.push_back(
        to_text(input_attr(view(graph, graph.op(y)), rules[y.index], sharding, 1)));
  EXPECT_EQ(std::ranges::count(canonical_placements, "[*, @x]"), 1);
  EXPECT_EQ(std::ranges::count(canonical_placements, "[*, @x/3]"), 1);
}

}  // namespace
}  // namespace tessera
