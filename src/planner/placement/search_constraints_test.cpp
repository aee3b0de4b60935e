#include "planner/placement/search_constraints.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/ops/builder.h"
#include "planner/placement/placement_search.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

/// y = tanh(x w), w takes w - x^T y; several of them in layers.
Graph layers(int count) {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input("x", {DType::kF32, {64, 32}});
  for (int i = 0; i < count; ++i) {
    const std::string name = "blocks." + std::to_string(i) + ".";
    const ValueId w =
        builder.variable(name + "w", {DType::kF32, {32, 32}}, Initializer::normal(0, 0.02));
    const ValueId y = builder.dot(x, w, "mk,kn->mn", name + "dot");
    graph.set_next(w, builder.sub(w, builder.dot(x, y, "mk,mn->kn", name + "step"), name + "next"));
    x = builder.unary("tanh", y, name + "tanh");
  }
  graph.add_output("result", x);
  return graph;
}

PlacementResult searched_under(const Graph& graph, const MeshPtr& mesh,
                               const std::vector<Mark>& marks) {
  CostModel cost;
  PlacementSearchOptions options{.separate_strategies = 0};
  options.problem.constraints = constraints_of_marks(graph, mesh, marks);
  std::optional<PlacementResult> result = search_placements(graph, mesh, cost, options);
  EXPECT_TRUE(result.has_value());
  return std::move(*result);
}

std::string search_constraints_canonical_placement(const Graph& graph,
                                                   const PlacementResult& result,
                                                   std::string_view name) {
  return to_text(result.sharded.at(*graph.find_value(name)));
}

TEST(SearchUnderMarks, KeepsTheHomeOfAVariable) {
  const Graph graph = layers(1);
  for (const std::string placement : {"P(\"x\")", "P(None, \"x\")", "P()"}) {
    const PlacementResult result =
        searched_under(graph, mesh_of("x=2"), {shard_tensor("blocks.0.w", placement)});
    EXPECT_EQ(result.sharded.at(*graph.find_value("blocks.0.w")),
              parse_spec(placement, result.sharded.meshes.front().mesh, 2));
  }
}

TEST(SearchUnderMarks, KeepsTheHomeOfAnInputAndOfAValueThatAnOpMakes) {
  const Graph graph = layers(2);
  const PlacementResult result = searched_under(
      graph, mesh_of("x=2,y=2"),
      {shard_tensor("x", "P(\"y\")"), shard_tensor("blocks.0.dot", "P(None, \"x\")")});
  EXPECT_EQ(search_constraints_canonical_placement(graph, result, "x"), "[@y, *]");
  EXPECT_EQ(search_constraints_canonical_placement(graph, result, "blocks.0.dot"), "[*, @x]");
}

TEST(SearchUnderMarks, KeepsTheFactorsOfAnOp) {
  const Graph graph = layers(1);
  const MeshPtr mesh = mesh_of("x=2");
  const PlacementResult result =
      searched_under(graph, mesh, {shard_op("blocks.0.dot", "[P(None, \"x\"), P(\"x\")]")});
  const OpId dot = graph.value(*graph.find_value("blocks.0.dot")).producer;
  const auto input = [&](int index) {
    return to_text(input_attr(view(graph, graph.op(dot)), result.sharded.rules[dot.index],
                              result.sharded.at(dot), index));
  };
  EXPECT_EQ(input(0), "[*, @x]");
  EXPECT_EQ(input(1), "[@x, *]");
}

TEST(SearchUnderMarks, MayDivideTheDimsThatAMarkLeavesOpen) {
  const Graph graph = layers(1);
  const MeshPtr mesh = mesh_of("x=2,y=2");
  const SearchConstraints constraints =
      constraints_of_marks(graph, mesh, {shard_tensor("blocks.0.w", "P(?, \"y\")")});
  std::vector<std::string> canonical_placements;
  for (const DistAttr& attr :
       constraints.canonical_placements.at(graph.find_value("blocks.0.w")->index))
    canonical_placements.push_back(to_text(attr));
  EXPECT_EQ(canonical_placements, (std::vector<std::string>{"[*, @y]", "[@x, @y]"}));
}

TEST(SearchUnderMarks, DecidesLikeLayersTogetherUnlessTheirMarksDiffer) {
  const Graph graph = layers(6);
  const MeshPtr mesh = mesh_of("x=2");
  const int shared = searched_under(graph, mesh, {}).nodes;
  EXPECT_EQ(searched_under(graph, mesh, {shard_tensor("blocks.*.w", "P(\"x\")")}).nodes, shared);
  const PlacementResult one = searched_under(
      graph, mesh, {shard_tensor("blocks.3.w", "P(\"x\")"), shard_tensor("blocks.4.w", "P()")});
  EXPECT_GT(one.nodes, shared);
  EXPECT_EQ(search_constraints_canonical_placement(graph, one, "blocks.3.w"), "[@x, *]");
  EXPECT_EQ(search_constraints_canonical_placement(graph, one, "blocks.4.w"), "[*, *]");
}

TEST(SearchUnderMarks, TakesNoLessThanWithoutThem) {
  const Graph graph = layers(3);
  const MeshPtr mesh = mesh_of("x=4");
  const PlacementResult free = searched_under(graph, mesh, {});
  for (const std::string placement : {"P(\"x\")", "P(None, \"x\")", "P()"})
    EXPECT_GE(searched_under(graph, mesh, {shard_tensor("blocks.*.w", placement)}).time, free.time);
}

// The results of op "blocks.0.dot" are whole, and the next op is to take partial sums.
TEST(SearchUnderMarks, RefusesMarksThatContradictEachOther) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {64, 32}});
  const ValueId sum = builder.add(x, x, "sum");
  graph.add_output("result", builder.sub(sum, sum, "twice"));
  const std::vector<Mark> marks = {shard_tensor("sum", "P()"),
                                   shard_op("twice", "[(x: Partial(sum)), (x: Partial(sum))]")};
  try {
    searched_under(graph, mesh_of("x=2"), marks);
    FAIL() << "the marks are accepted";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    EXPECT_NE(error.what_happened().find("'sum' and 'twice'"), std::string::npos)
        << error.what_happened();
    EXPECT_FALSE(error.why().empty());
    EXPECT_FALSE(error.fix().empty());
  }
}

TEST(SearchUnderMarks, RefusesTwoHomesOfAVariableAndOfWhatReplacesIt) {
  const Graph graph = layers(1);
  EXPECT_THROW(constraints_of_marks(
                   graph, mesh_of("x=2"),
                   {shard_tensor("blocks.0.w", "P(\"x\")"), shard_tensor("blocks.0.next", "P()")}),
               UserError);
}

TEST(PlainPlacements, DivideEachDimByTheAxesThatItIsLongEnoughFor) {
  std::vector<std::string> texts;
  for (const DistAttr& attr : plain_placements({DType::kF32, {8, 2}}, mesh_of("x=2,y=4")))
    texts.push_back(to_text(attr));
  EXPECT_EQ(texts, (std::vector<std::string>{"[*, *]", "[@y, *]", "[@x, *]", "[@x@y, *]", "[*, @x]",
                                             "[@y, @x]"}));
}

}  // namespace
}  // namespace tessera
