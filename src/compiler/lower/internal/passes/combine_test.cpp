#include "compiler/lower/internal/passes/combine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/testing/layers.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"
#include "task_graph/tasks/check.h"

namespace tessera {
namespace {

using testing::ElementsAre;

std::string exchange_text(const TaskGraph& graph, const Task& task) {
  std::string text(to_text(task.parts.front().exchange.kind));
  for (RegisterIndex target : task.outputs) text += " " + graph.registers[target].name;
  return text;
}

/// "all-reduce a [*] b [*]", one of each exchange in their order.
std::vector<std::string> exchanges(const TaskGraph& graph) {
  std::vector<std::string> texts;
  for (TaskId id : graph.order)
    if (graph.tasks[id].kind == Task::Kind::kExchange)
      texts.push_back(exchange_text(graph, graph.tasks[id]));
  return texts;
}

/// Three layers of 64 x 64 weights, 16 KiB each, for `rows` rows over four ranks.
Compiled layers(int64_t rows, std::vector<std::string> disabled = {}) {
  const Plan plan{.meshes = one_mesh(mesh_of("dp=4")),
                  .disabled_passes = std::move(disabled),
                  .marks = {shard_tensor("x", "P(\"dp\")")}};
  return compile(testing_layers::square_layers(3, rows, 64), plan,
                 {.dump = {}, .verify_passes = true});
}

size_t optimizer_exchanges(const TaskGraph& graph) {
  return std::count_if(graph.tasks.begin(), graph.tasks.end(), [](const Task& task) {
    return task.kind == Task::Kind::kExchange && task.role == Role::kOptimizer;
  });
}

TEST(Combine, TheGradientsOfASmallModelTravelTogether) {
  // Each gradient is reduced by a reduce-scatter and an all-gather.
  EXPECT_EQ(optimizer_exchanges(layers(2048, {"combine"}).tasks), 6u);
  EXPECT_EQ(optimizer_exchanges(layers(2048).tasks), 2u);
}

TEST(Combine, NoMoreIsAliveAtOnceThanBefore) {
  // With 8 rows the gradients, 48 KiB, are most of what is alive. The result of the first
  // reduce-scatter adds 4 KiB to them in any case; a second one would add more. When the first
  // gradient is reduced and freed there is room for the two others together.
  EXPECT_EQ(optimizer_exchanges(layers(8).tasks), 4u);
  for (const int64_t rows : {8, 64, 512, 2048})
    EXPECT_LE(layers(rows).arenas.front().live_bound,
              layers(rows, {"combine"}).arenas.front().live_bound)
        << rows << " rows";
}

/// Sums of the inputs a, b (over dp) and c (over tp), and the maximum of d (over dp).
Graph numbers() {
  Graph graph;
  Builder builder(graph);
  for (const char* name : {"a", "b", "c", "d"}) {
    const ValueId input = builder.input(name, {DType::kF32, {8}});
    const ReduceOp reduce = name == std::string("d") ? ReduceOp::kMax : ReduceOp::kSum;
    graph.add_output(name, builder.reduce(reduce, input, {0}, name + std::string(".total")));
  }
  return graph;
}

TEST(Combine, OnlyOneKindOverTheSameAxesWithTheSameReduction) {
  const std::vector<Mark> marks = {shard_tensor("a", "P(\"dp\")"), shard_tensor("b", "P(\"dp\")"),
                                   shard_tensor("c", "P(\"tp\")"), shard_tensor("d", "P(\"dp\")")};
  const Compiled compiled = compile(numbers(), mesh_of("dp=2 tp=2"), marks);
  EXPECT_THAT(exchanges(compiled.tasks),
              testing::UnorderedElementsAre("all-reduce a.total [] b.total []",
                                            "all-reduce c.total []", "all-reduce d.total []"));
}

TEST(Combine, AnExchangeDoesNotWaitForWhatDependsOnIt) {
  Graph graph;
  Builder b(graph);
  const ValueId a = b.input("a", {DType::kF32, {8}});
  const ValueId first = b.reduce(ReduceOp::kSum, a, {0}, "first");
  const ValueId scale = b.broadcast(b.unary("tanh", first, "scale"), {8}, {}, "scales");
  graph.add_output("y", b.reduce(ReduceOp::kSum, b.mul(a, scale, "scaled"), {0}, "second"));
  const Compiled compiled = compile(graph, mesh_of("dp=2"), {shard_tensor("a", "P(\"dp\")")});
  EXPECT_THAT(exchanges(compiled.tasks),
              ElementsAre("all-reduce first []", "all-reduce second []"));
}

TEST(Combine, FarExchangesOfTheForwardAreCombinedOnlyWhileTheyAreSmall) {
  const auto exchanges_with = [](Bytes passes) {
    Graph graph;
    Builder b(graph);
    const ValueId x = b.input("x", {DType::kF32, {8, 4}});
    const ValueId v = b.variable("v", {DType::kF32, {4, 4}}, Initializer::constant(1));
    const ValueId w = b.variable("w", {DType::kF32, {4, 16}}, Initializer::constant(1));
    const ValueId y = b.unary("tanh", b.dot(x, v, "mk,kn->mn", "y"), "z");
    graph.add_output("out", b.dot(y, w, "mk,kn->mn", "out"));
    const std::vector<Mark> marks = {shard_tensor("v", "P(\"tp\")"), shard_tensor("w", "P(\"tp\")"),
                                     shard_op("y", "[P(), P()]"), shard_op("out", "[P(), P()]")};
    Program program = partition(graph, propagate(graph, mesh_of("tp=2"), marks));
    combine_exchanges(program, {.passes = passes});
    return combine_text(program);
  };
  // 4 x 4 x 4 and 4 x 16 x 4 bytes: together 320.
  EXPECT_EQ(exchanges_with(Bytes(319)), "no exchanges are combined\n");
  EXPECT_EQ(exchanges_with(Bytes(320)), "all-gather of 2 tensors: v [*, *], w [*, *]\n");
}

TEST(Combine, TheLossTravelsWithWhatTheOptimizerReduces) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8}});
  graph.add_output("loss", b.reduce(ReduceOp::kSum, x, {0}, "loss"));
  b.derive(Role::kOptimizer, {});
  const ValueId norm = b.reduce(ReduceOp::kSum, b.mul(x, x, "squares"), {0}, "norm");
  graph.add_output("clip", b.unary("tanh", norm, "clip"));
  const Compiled compiled = compile(graph, mesh_of("dp=2"), {shard_tensor("x", "P(\"dp\")")});
  EXPECT_THAT(exchanges(compiled.tasks), ElementsAre("all-reduce norm [] loss []"));
}

TEST(Combine, EachMicroBatchTravelsByItself) {
  const Plan plan{.meshes = one_mesh(mesh_of("dp=2")),
                  .micro_batches = 4,
                  .marks = {shard_tensor("x", "P(\"dp\")")}};
  const Compiled compiled =
      compile(testing_layers::square_layers(3, 64, 16), plan, {.dump = {}, .verify_passes = true});
  for (const Task& task : compiled.tasks.tasks)
    for (RegisterIndex input : task.parts.empty() ? std::span<const RegisterIndex>() : task.inputs)
      EXPECT_EQ(compiled.tasks.registers[input].micro_batch.index, task.micro_batch);
}

// ---- faults that the checks find ----

struct Checked {
  Graph graph = numbers();
  TaskGraph tasks;
};

/// The sums of a and of b in one exchange.
Checked two_sums() {
  Checked made;
  made.tasks = compile(made.graph, mesh_of("dp=2 tp=2"),
                       {shard_tensor("a", "P(\"dp\")"), shard_tensor("b", "P(\"dp\")")})
                   .tasks;
  return made;
}

TaskForm& combined(TaskGraph& tasks) {
  auto& forms = tasks.tasks.forms();
  const auto combine_found = std::find_if(
      forms.begin(), forms.end(), [](const TaskForm& task) { return task.parts.size() == 2; });
  EXPECT_NE(combine_found, forms.end());
  return *combine_found;
}

/// What the checks say of a task graph with this fault.
template <class Plant>
std::string combine_found(const Plant& plant) {
  Checked made = two_sums();
  plant(made.tasks, combined(made.tasks));
  try {
    link(made.tasks);
    check(made.tasks);
    check_placements(made.graph, made.tasks, 1);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

TEST(CombinedExchanges, PassTheChecks) {
  EXPECT_EQ(combine_found([](TaskGraph&, TaskForm&) {}), "");
}

TEST(CombinedExchanges, APartThatIsDroppedIsFound) {
  EXPECT_THAT(combine_found([](TaskGraph&, TaskForm& task) {
                task.parts.pop_back();
                task.inputs.pop_back();
                task.outputs.pop_back();
              }),
              testing::HasSubstr("register 'b.total []'"));
  EXPECT_THAT(combine_found([](TaskGraph&, TaskForm& task) { task.parts.pop_back(); }),
              testing::HasSubstr("has not one input and one output for each of its 1 parts"));
}

TEST(CombinedExchanges, TargetsThatTradePlacesAreFound) {
  EXPECT_THAT(combine_found(
                  [](TaskGraph&, TaskForm& task) { std::swap(task.outputs[0], task.outputs[1]); }),
              testing::HasSubstr("placements: "));
}

TEST(CombinedExchanges, AnotherOrderOfTheReductionIsFound) {
  EXPECT_THAT(combine_found([](TaskGraph&, TaskForm& task) {
                Exchange& exchange = task.parts[1].exchange;
                exchange.from.mesh =
                    std::make_shared<const Mesh>(Shape{2, 2}, std::vector<std::string>{"dp", "tp"},
                                                 std::vector<Rank>{2, 3, 0, 1});
              }),
              testing::HasSubstr("takes "));
}

TEST(CombinedExchanges, AnotherReductionOfOnePartIsFound) {
  EXPECT_THAT(combine_found([](TaskGraph& tasks, TaskForm& task) {
                Exchange& exchange = task.parts[1].exchange;
                exchange.from.partial.front().reduce = ReduceOp::kMax;
                tasks.registers.forms()[task.inputs[1]].attr = exchange.from;
              }),
              testing::HasSubstr("placements: "));
}

TEST(CombinedExchanges, PartsOfTwoKindsAreFound) {
  EXPECT_THAT(combine_found([](TaskGraph&, TaskForm& task) {
                task.parts[1].exchange.kind = ReshardKind::kAllGather;
              }),
              testing::HasSubstr("is all-reduce and all-gather at once"));
}

}  // namespace
}  // namespace tessera
