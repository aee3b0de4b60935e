#include "sharding/propagation/internal/open_ops.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/ops/builder.h"
#include "sharding/propagation/internal/propagate_step.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

/// Looks at every op and value in each round, whatever has changed.
std::vector<DistAttr> propagated_by_looking_at_all(const Graph& graph, const Meshes& meshes,
                                                   const std::vector<Mark>& marks) {
  PropagationState state(graph, meshes, marks, catalogue_rule, assign_meshes(graph, meshes, marks),
                         nullptr);
  const auto between_meshes = [&] {
    bool changed = false;
    for (auto& placements : state.placements()) changed |= propagate_between_meshes(placements);
    return changed;
  };
  between_meshes();
  for (bool changed = true; changed;) {
    changed = false;
    OpenOps unused(state);
    const int count = state.op_count();
    for (int i = 0; i < count; ++i) changed |= propagate_step(state, OpId{i}, unused);
    for (int i = count - 1; i >= 0; --i) changed |= propagate_step(state, OpId{i}, unused);
    changed |= between_meshes();
  }
  std::vector<DistAttr> attrs;
  for (int i = 0; i < std::ssize(graph.values()); ++i) attrs.push_back(state.canonical({i}).attr);
  return attrs;
}

class Draws {
 public:
  explicit Draws(unsigned seed) : engine_(seed) {}

  int below(size_t limit) { return static_cast<int>(engine_() % limit); }
  template <class Thing>
  const Thing& one_of(const std::vector<Thing>& things) {
    return things[below(things.size())];
  }

 private:
  std::mt19937 engine_;
};

/// Products, sums and transposes of square matrices; variables become some of them.
Graph random_graph(Draws& draws) {
  Graph graph;
  Builder b(graph);
  const TensorType type{DType::kF32, {8, 8}};
  std::vector<ValueId> values{b.input("x", type)}, variables;
  for (int i = 0; i < 3; ++i) {
    variables.push_back(b.variable("w" + std::to_string(i), type, Initializer::normal(0, 1)));
    values.push_back(variables.back());
  }
  for (int i = 0; i < 14; ++i) {
    const std::string name = "y" + std::to_string(i);
    const ValueId left = draws.one_of(values), right = draws.one_of(values);
    switch (draws.below(3)) {
      case 0: values.push_back(b.dot(left, right, "mk,kn->mn", name)); break;
      case 1: values.push_back(b.add(left, right, name)); break;
      default: values.push_back(b.transpose(left, {1, 0}, name));
    }
  }
  for (size_t i = 0; i < variables.size(); ++i)
    if (draws.below(2) == 0) graph.set_next(variables[i], values[values.size() - 1 - i]);
  graph.add_output("y", values.back());
  return graph;
}

std::vector<Mark> random_marks(Draws& draws) {
  const std::vector<std::string> placements = {"P(\"a\")", "P(None,\"a\")", "P(\"b\",\"a\")",
                                               "P(None,\"b\")", "P((\"a\",\"b\"))"};
  std::vector<Mark> marks{shard_tensor("x", draws.one_of(placements))};
  if (draws.below(2) == 0) marks.push_back(shard_tensor("w0", draws.one_of(placements)));
  if (draws.below(2) == 0) marks.push_back(shard_tensor("y7", draws.one_of(placements)));
  for (int i = 0; i < 14; ++i)
    marks.push_back(stage("y" + std::to_string(i), i < 7 ? "first" : "last"));
  return marks;
}

TEST(OpenOps, GiveThePlacementsThatLookingAtAllOpsInEachRoundGives) {
  Meshes meshes;
  for (const std::string name : {"first", "last"}) {
    const Rank begin = meshes.empty() ? 0 : 4;
    meshes.push_back({name, std::make_shared<const Mesh>(
                                Shape{2, 2}, std::vector<std::string>{"a", "b"},
                                std::vector<Rank>{begin, begin + 1, begin + 2, begin + 3})});
  }
  int divided = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Draws draws(seed);
    const Graph graph = random_graph(draws);
    const std::vector<Mark> marks = random_marks(draws);
    std::vector<DistAttr> expected;
    try {
      expected = propagated_by_looking_at_all(graph, meshes, marks);
    } catch (const UserError&) {
      continue;  // marks that contradict each other
    }
    const ShardedGraph sharded = propagate(graph, meshes, marks);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(sharded.values[i].dims, expected[i].dims) << "seed " << seed << " value " << i;
      divided += !expected[i].is_replicated();
    }
  }
  EXPECT_GT(divided, 1000);
}

TEST(OpenOps, AChangeOpensTheOpsAroundAValueOnce) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4}});
  const ValueId y = b.add(x, x, "y");
  b.add(y, y, "z");
  const Meshes meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("a=2")));
  const PropagationState state(graph, meshes, {}, catalogue_rule, assign_meshes(graph, meshes, {}),
                               nullptr);
  OpenOps open(state);
  EXPECT_TRUE(open.take(OpId{0}));
  EXPECT_TRUE(open.take(OpId{1}));
  EXPECT_FALSE(open.take(OpId{0}));
  open.open(x);
  EXPECT_TRUE(open.take(OpId{0}));
  EXPECT_FALSE(open.take(OpId{0}));
  EXPECT_FALSE(open.take(OpId{1})) << "z does not read x";
}

}  // namespace
}  // namespace tessera
