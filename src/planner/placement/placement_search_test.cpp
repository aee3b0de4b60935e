#include "planner/placement/placement_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/solver/solve.h"
#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "ir/ops/builder.h"
#include "planner/placement/testing/slow_devices.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

/// y = x w with the step of a gradient descent: w takes w - x^T y.
struct Product {
  Graph graph;
  ValueId x, w;
};

Product product(int64_t rows, int64_t inner, int64_t columns, const std::string& scope = "") {
  Product made;
  Builder builder(made.graph);
  made.x = builder.input(scope + "x", f32({rows, inner}));
  made.w = builder.variable(scope + "w", f32({inner, columns}), Initializer::normal(0, 0.02));
  const ValueId y = builder.dot(made.x, made.w, "mk,kn->mn", scope + "y");
  const ValueId gradient = builder.dot(made.x, y, "mk,mn->kn", scope + "step");
  made.graph.set_next(made.w, builder.sub(made.w, gradient, scope + "next"));
  return made;
}

PlacementResult searched(const Graph& graph, const MeshPtr& mesh, const CostModel& cost,
                         const PlacementSearchOptions& options = {}) {
  std::optional<PlacementResult> result = search_placements(graph, mesh, cost, options);
  EXPECT_TRUE(result.has_value());
  return std::move(*result);
}

std::string canonical_placement(const PlacementResult& result, ValueId value) {
  return to_text(result.sharded.at(value));
}

TEST(SearchedPlacements, OfALargeBatchAndASmallWeightDivideTheRows) {
  const Product given = product(65536, 64, 64);
  const PlacementResult result = searched(given.graph, mesh_of("x=4"), model_of(1e10, 1e9));
  EXPECT_EQ(canonical_placement(result, given.x), "[@x, *]");
  EXPECT_TRUE(result.is_optimal);
}

TEST(SearchedPlacements, OfASmallBatchAndALargeWeightDivideTheWeight) {
  const Product given = product(8, 4096, 4096);
  const PlacementResult result = searched(given.graph, mesh_of("x=4"), model_of(1e10, 1e9));
  EXPECT_NE(canonical_placement(result, given.w), "[*, *]");
  EXPECT_NE(canonical_placement(result, given.x), "[@x, *]");
}

// Each differs from the answer in one node, takes at least as long, and is what the change makes.
TEST(SearchedPlacements, HaveNeighboursThatTakeLonger) {
  const Product given = product(4096, 256, 512);
  const MeshPtr mesh = mesh_of("x=2,y=2");
  const CostModel cost = model_of(1e10, 1e9);
  const PlacementResult result = searched(given.graph, mesh, cost, {.neighbours = 3});
  ASSERT_EQ(result.neighbours.size(), 3);
  Seconds last = result.time;
  for (const PlacementNeighbour& each : result.neighbours) {
    EXPECT_TRUE(each.sharded.ops != result.sharded.ops ||
                each.sharded.values != result.sharded.values ||
                each.sharded.copies != result.sharded.copies);
    const PlacementResult changed = searched(given.graph, mesh, cost, {.changes = {each.change}});
    EXPECT_EQ(changed.sharded.ops, each.sharded.ops);
    EXPECT_EQ(changed.sharded.values, each.sharded.values);
    EXPECT_GE(changed.time, last);
    last = changed.time;
  }
}

TEST(SearchedPlacements, HaveNoNeighboursBeyondTheLimitOfMemory) {
  const Product given = product(4096, 256, 512);
  const MeshPtr mesh = mesh_of("x=4");
  const CostModel cost = model_of(1e10, 1e9);
  const PlacementResult free = searched(given.graph, mesh, cost, {.neighbours = 100});
  const PlacementResult bound =
      searched(given.graph, mesh, cost, {.memory_limit = free.counted_memory, .neighbours = 100});
  EXPECT_EQ(bound.counted_memory, free.counted_memory);
  EXPECT_LT(bound.neighbours.size(), free.neighbours.size());
  for (const PlacementNeighbour& each : bound.neighbours)
    EXPECT_LE(searched(given.graph, mesh, cost, {.changes = {each.change}}).counted_memory,
              free.counted_memory);
}

// Two axes, one over a slow link: the large product is divided by both, and what is exchanged is
// exchanged over the fast one.
TEST(SearchedPlacements, CrossASlowLinkByTheAxisThatSendsLeast) {
  const Product given = product(65536, 256, 4096);
  CostModel cost = model_of(1e10, 1e10);
  cost.links.axes["slow"] = {Seconds(1e-5), 1e7};
  const PlacementResult result = searched(given.graph, mesh_of("slow=2,fast=2"), cost);
  // Rows that the slow axis divides would need the sum of the gradients over it, 4 MiB in 0.4 s.
  // The columns need no sum.
  EXPECT_EQ(result.sharded.at(given.w).dims[1].axes.front(), 0)
      << canonical_placement(result, given.w);
}

TEST(SearchedPlacements, TakeNoMoreThanEveryOtherAssignment) {
  const Product given = product(32, 16, 8);
  for (const std::string mesh : {"x=2", "x=4", "x=2,y=2"}) {
    const CostModel cost = model_of(1e8, 1e8);
    const MeshPtr ranks = mesh_of(mesh);
    const SearchProblem search(given.graph, ranks, cost, no_shared_decisions(given.graph));
    const solver::Problem& problem = search.problem();
    solver::Assignment now(problem.nodes(), 0);
    std::optional<solver::Wide> smallest;
    int64_t combinations = 1;
    for (int i = 0; i < problem.nodes(); ++i) combinations *= problem.strategies(i);
    if (combinations > 2'000'000) continue;
    for (bool more = true; more;) {
      const solver::Evaluation value = evaluate(problem, now);
      if (!value.forbidden && (!smallest || value.cost < *smallest)) smallest = value.cost;
      more = false;
      for (int i = 0; i < problem.nodes() && !more; ++i) {
        more = ++now[i] < problem.strategies(i);
        if (!more) now[i] = 0;
      }
    }
    solver::SolveOptions how;
    how.work = 10;
    EXPECT_EQ(solver::solve(problem, how).cost, smallest) << mesh;
    EXPECT_DOUBLE_EQ(searched(given.graph, ranks, cost).time.value(),
                     1e-12 * solver::to_double(*smallest));
  }
}

// Devices and links that are 2^30 times as slow make every time 2^30 times as long: the costs sum
// to more picoseconds than the solver adds exactly, so their unit is a larger one.
TEST(SearchedPlacements, OfVerySlowDevicesTakeAsManyTimesAsLong) {
  constexpr double kSlower = 1 << 30;
  const Product given = product(4096, 256, 512);
  const MeshPtr mesh = mesh_of("x=2,y=2");
  const CostModel fast = model_of(1e10, 1e9);
  CostModel slow = fast;
  slow.device.flops_per_second /= kSlower;
  slow.device.bytes_per_second /= kSlower;
  slow.device.copied_bytes_per_second /= kSlower;
  slow.device.launch = Seconds(kSlower * fast.device.launch.value());
  slow.links.any = {Seconds(kSlower * fast.links.any.latency.value()),
                    fast.links.any.bytes_per_second / kSlower};
  const PlacementResult result = searched(given.graph, mesh, slow);
  const PlacementResult expected = searched(given.graph, mesh, fast);
  EXPECT_TRUE(result.is_optimal);
  // Each cost is rounded to a picosecond, or to a part of the slow step that is less.
  EXPECT_NEAR(result.time.value() / kSlower, expected.time.value(),
              1e-12 * (expected.nodes + expected.edges));
}

/// `count` blocks of a product, a sum and a nonlinearity, and the steps of their weights.
Graph placement_search_blocks(int count, const std::string& scope) {
  Graph graph;
  Builder builder(graph);
  ValueId x = builder.input(scope + "x", f32({64, 32}));
  for (int i = 0; i < count; ++i) {
    const std::string name = scope + "blocks." + std::to_string(i) + ".";
    const ValueId w = builder.variable(name + "w", f32({32, 32}), Initializer::normal(0, 0.02));
    const ValueId y = builder.dot(x, w, "mk,kn->mn", name + "dot");
    x = builder.unary("tanh", builder.add(x, y, name + "sum"), name + "tanh");
    graph.set_next(w, builder.sub(w, builder.dot(x, y, "mk,mn->kn", name + "step"), name + "next"));
  }
  return graph;
}

TEST(SearchedPlacements, OfLikeLayersAreOneDecision) {
  const CostModel cost = model_of(1e9, 1e9);
  const PlacementResult four = searched(placement_search_blocks(4, ""), mesh_of("x=2,y=2"), cost);
  const PlacementResult twelve =
      searched(placement_search_blocks(12, ""), mesh_of("x=2,y=2"), cost);
  EXPECT_EQ(four.nodes, twelve.nodes);
  const PlacementResult separate = searched(placement_search_blocks(4, ""), mesh_of("x=2,y=2"),
                                            cost, {.shares_layer_decisions = false});
  EXPECT_GT(separate.nodes, four.nodes);
  EXPECT_LE(separate.time, four.time);
  EXPECT_LE(four.time.value(), 1.01 * separate.time.value());
}

TEST(SearchedPlacements, DoNotDependOnNames) {
  const CostModel cost = model_of(1e9, 1e8);
  const Graph one = placement_search_blocks(3, ""), other = placement_search_blocks(3, "zebra.");
  const PlacementResult a = searched(one, mesh_of("dp=4"), cost);
  const PlacementResult b = searched(other, mesh_of("tp=4"), cost);
  ASSERT_EQ(one.ops().size(), other.ops().size());
  for (int i = 0; i < std::ssize(one.ops()); ++i)
    EXPECT_EQ(a.sharded.ops[i].factor_axes, b.sharded.ops[i].factor_axes) << one.ops()[i].name;
}

// Divided by columns, nothing is exchanged, and every rank has all of x. Where that has no place,
// the rows are divided, and gradients are summed over a slow link.
TEST(SearchedPlacements, KeepTheLimitOfMemory) {
  const Product given = product(65536, 256, 256);
  const CostModel cost = model_of(1e10, 1e6);
  const PlacementResult free = searched(given.graph, mesh_of("x=4"), cost);
  ASSERT_EQ(canonical_placement(free, given.w), "[*, @x]");
  const Bytes limit(free.counted_memory.value() * 3 / 5);
  const std::optional<PlacementResult> limited =
      search_placements(given.graph, mesh_of("x=4"), cost, {.memory_limit = limit});
  ASSERT_TRUE(limited.has_value());
  EXPECT_EQ(canonical_placement(*limited, given.x), "[@x, *]");
  EXPECT_LE(limited->counted_memory, limit);
  EXPECT_GT(limited->time, free.time);
  EXPECT_FALSE(search_placements(given.graph, mesh_of("x=4"), cost, {.memory_limit = Bytes(64)})
                   .has_value());
}

// w of 64x64 elements is whole, x of 1024 x 64 and y of 1024 x 64 are divided by four: 16384 bytes
// of w, 65536 of x and as many of y; then x, y and the gradient, another 16384 bytes, which is
// written over w when it is subtracted.
TEST(SearchedPlacements, CountWhatIsAliveAtEachOp) {
  Product given = product(1024, 64, 64);
  const PlacementResult result = searched(given.graph, mesh_of("x=4"), model_of(1e6, 1e9));
  ASSERT_EQ(canonical_placement(result, given.x), "[@x, *]");
  const int64_t weight = result.sharded.at(given.w).is_replicated() ? 16384 : 4096;
  EXPECT_GE(result.counted_memory, Bytes(weight + 2 * 65536 + 16384));
  EXPECT_LE(result.counted_memory, Bytes(weight + 2 * 65536 + 2 * 16384 + 4096));
}

TEST(SearchedPlacements, AreTheSameInEveryRun) {
  const CostModel cost = model_of(1e9, 1e9);
  const Graph graph = placement_search_blocks(5, "");
  const PlacementResult a = searched(graph, mesh_of("x=2,y=3"), cost);
  const PlacementResult b = searched(graph, mesh_of("x=2,y=3"), cost);
  EXPECT_TRUE(a.sharded.ops == b.sharded.ops);
  EXPECT_TRUE(a.sharded.values == b.sharded.values);
}

}  // namespace
}  // namespace tessera
