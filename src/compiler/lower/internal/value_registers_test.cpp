#include "compiler/lower/internal/value_registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/tensor_types.h"
#include "compiler/lower/partition.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

/// "slice y [@d, *]" a line an exchange, in program order: what it is made of, and what.
std::vector<std::string> value_registers_exchanges(const Graph& graph, const std::string& mesh,
                                                   const std::vector<Mark>& marks,
                                                   Seconds latency) {
  PartitionOptions options;
  options.reshard.links.any = {latency, 1e10};
  const ShardedGraph sharded =
      propagate(graph, std::make_shared<const Mesh>(parse_mesh(mesh)), marks);
  const Program program = partition(graph, sharded, sharded.meshes, options);
  std::vector<std::string> lines;
  for (const Instruction& i : program.instructions)
    if (const ExchangeStep* step = i.exchange())
      lines.push_back(std::string(to_text(step->kind())) + " " +
                      program.registers[step->source()].name.text() + " to " +
                      to_text(step->exchange().to));
  return lines;
}

/// y = x w is a partial sum of 16 KiB on each of four ranks; "part" reads rows of it, and "whole"
/// all of it.
Graph sum_with_two_readers(Role role_of_whole) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({64, 8}));
  const ValueId w = b.variable("w", f32({8, 64}), Initializer::normal(0, 1));
  const ValueId y = b.dot(x, w, "mk,kn->mn", "y");
  b.unary("tanh", y, "part");
  graph.add_op("whole", "tanh", {}, {y}, {graph.type(y)}, role_of_whole);
  return graph;
}

const std::vector<Mark> kSumMarks = {shard_tensor("x", "P(None, \"d\")"),
                                     shard_tensor("w", "P(\"d\")"), shard_op("part", "[P(\"d\")]"),
                                     shard_op("whole", "[P()]")};

// Whole: three latencies, and one more of a part that is cut from it. Part first: three, and three
// more to gather the whole; of 16 KiB at 10 GB/s each of these sends 1.2 us, the whole sum 4.9 us.
TEST(ReshardedValue, IsMadeWholeFirstWhereItsPartsTakeMoreThanTheWhole) {
  const Graph graph = sum_with_two_readers(Role::kForward);
  EXPECT_THAT(value_registers_exchanges(graph, "d=4", kSumMarks, Seconds(1e-5)),
              testing::ElementsAre("all-reduce y to [*, *]", "slice y [*, *] to [@d, *]"));
}

TEST(ReshardedValue, IsMadeInPartsFirstWhereThatTakesNoMore) {
  const Graph graph = sum_with_two_readers(Role::kForward);
  EXPECT_THAT(
      value_registers_exchanges(graph, "d=4", kSumMarks, Seconds(1e-8)),
      testing::ElementsAre("reduce-scatter y to [@d, *]", "all-gather y [@d, *] to [*, *]"));
}

// It would be kept whole until then.
TEST(ReshardedValue, IsNotMadeWholeForALaterPass) {
  const Graph graph = sum_with_two_readers(Role::kBackward);
  EXPECT_THAT(
      value_registers_exchanges(graph, "d=4", kSumMarks, Seconds(1e-5)),
      testing::ElementsAre("reduce-scatter y to [@d, *]", "all-gather y [@d, *] to [*, *]"));
}

// From [@y, @z] to [@x, @y] the first and the last rank receive nothing, and others send their part
// to two ranks.
TEST(ReshardedValue, ComesFromThePlacementFromWhichItTakesLeast) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({1024, 1024}));
  b.unary("tanh", x, "first");
  graph.add_op("second", "tanh", {}, {x}, {graph.type(x)}, Role::kBackward);
  const std::vector<std::string> lines = value_registers_exchanges(
      graph, "x=2,y=2,z=2",
      {shard_tensor("x", "P(None, (\"x\", \"y\", \"z\"))"), shard_op("first", "[P(\"y\", \"z\")]"),
       shard_op("second", "[P(\"x\", \"y\")]")},
      Seconds(1e-9));
  EXPECT_THAT(lines, testing::Not(testing::Contains(testing::HasSubstr("x [@y, @z] to"))));
  EXPECT_THAT(lines, testing::Contains(testing::EndsWith("to [@x, @y]")));
}

// The forward leaves a window of the rows, of which the whole that the backward makes first cannot
// be made.
TEST(ReshardedValue, ThatIsMadeFirstComesFromARegisterThatHasAllOfIt) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({64, 64}));
  b.slice(x, {0, 0}, {32, 64}, {1, 1}, "half");
  b.derive(Role::kBackward, {});
  b.slice(x, {0, 0}, {16, 64}, {1, 1}, "quarter");
  b.unary("tanh", x, "whole");
  const std::vector<std::string> lines = value_registers_exchanges(
      graph, "d=4", {shard_tensor("x", "P(\"d\")"), shard_op("whole", "[P()]")}, Seconds(1e-5));
  EXPECT_THAT(lines, testing::ElementsAre("halo x to [@d~32(+0:+0), *]", "all-gather x to [*, *]",
                                          "slice x [*, *] to [@d~16(+0:+0), *]"));
}

}  // namespace
}  // namespace tessera
