#include "simulator/step/internal/rank_variables.h"

#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

TEST(RankVariables, AreTheBytesOfEachVariableOfARank) {
  Graph graph;
  Builder builder(graph);
  const auto variable = [&](const std::string& name, Shape shape) {
    const ValueId value =
        builder.variable(name, {DType::kF32, std::move(shape)}, Initializer::constant(0));
    graph.add_output("of." + name, builder.unary("neg", value, "neg." + name));
  };
  for (const char* name : {"even.0", "even.1", "even.2"}) variable(name, {8, 3});
  for (const char* name : {"uneven.0", "uneven.1"}) variable(name, {5, 3});
  variable("whole", {8, 3});
  const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"r"});
  const Compiled compiled = compile(
      graph, mesh, {shard_tensor("even.*", "P(\"r\")"), shard_tensor("uneven.*", "P(\"r\")")});

  const RankVariables variables(compiled.tasks);
  constexpr int64_t kRow = 3 * 4;
  EXPECT_EQ(variables.in_memory(0), Bytes((3 * 4 + 2 * 3 + 8) * kRow));
  EXPECT_EQ(variables.in_memory(1), Bytes((3 * 4 + 2 * 2 + 8) * kRow));
  for (const Rank rank : {0, 1}) EXPECT_EQ(variables.in_file(rank), Bytes(0));
}

TEST(RankVariables, OfAFileAreNotInMemory) {
  Graph graph;
  Builder builder(graph);
  const ValueId w = builder.variable("w", {DType::kF32, {4}}, Initializer::constant(0));
  graph.add_output("y", builder.unary("neg", w));
  Compiled compiled =
      compile(graph, std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"r"}), {});
  TaskGraph& tasks = compiled.tasks;
  tasks.devices = IndexedVector<MeshIndex, DeviceKind>(tasks.meshes.size(), DeviceKind::kFile);
  EXPECT_EQ(RankVariables(tasks).in_memory(0), Bytes(0));
  EXPECT_EQ(RankVariables(tasks).in_file(0), Bytes(4 * 4));
}

}  // namespace
}  // namespace tessera
