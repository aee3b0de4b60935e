// What the body of a While computes from captured values alone is computed before the loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ir/autodiff/testing/gradient_check.h"
#include "ir/ops/control/control.h"
#include "ir/ops/interpreter.h"
#include "tools/fuzz/fuzz.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

/// "" when the divided program computes what the serial one computes.
std::string loop_invariants_failure_of(const Graph& graph, std::string_view mesh,
                                       std::vector<Mark> marks, int64_t micro_batches = 1) {
  FuzzCase given;
  given.seed = 7;
  given.graph = graph;
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  given.marks = std::move(marks);
  given.micro_batches = micro_batches;
  CaseFaults faults;
  bool refused = false;
  faults.on_refusal = [&] { refused = true; };
  const auto failure = run_case(given, faults);
  return failure ? failure->text : refused ? "refused in micro-batches" : "";
}

/// h[8, 6] goes three times through the product of two matrices, with a row added.
Graph with_invariants() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 6}});
  const ValueId a = builder.variable("a", {DType::kF32, {6, 4}}, Initializer::normal(0, 0.5));
  const ValueId b = builder.variable("b", {DType::kF32, {4, 6}}, Initializer::normal(0, 0.5));
  const ValueId row = builder.variable("row", {DType::kF32, {6}}, Initializer::normal(0, 1));
  const auto body = [](Builder& region, const RegionValues& values) {
    const ValueId product =
        region.dot(values.captured[0], values.captured[1], "ij,jk->ik", "product");
    const ValueId rows = region.broadcast(values.captured[2], {8, 6}, {1}, "rows");
    const ValueId moved = region.dot(values.carried[0], product, "bi,ik->bk", "moved");
    return std::vector{region.unary("tanh", region.add(moved, rows, "added"), "next")};
  };
  const Loop loop = build_while(
      builder,
      {.carried = {x}, .captured = {a, b, row}, .body = body, .max_iterations = 3, .name = "loop"});
  graph.add_output("h", loop.results[0]);
  return graph;
}

TEST(WhileInvariants, AreComputedBeforeTheLoop) {
  const Graph graph = with_invariants();
  ASSERT_TRUE(graph.find_op("loop.once.product"));
  ASSERT_TRUE(graph.find_op("loop.once.rows"));
  const Op& loop = graph.op(*graph.find_op("loop"));
  std::vector<std::string> operands;
  for (ValueId input : loop.inputs) operands.push_back(graph.value(input).name);
  // The loop reads a, b and row no more.
  EXPECT_THAT(operands,
              testing::ElementsAre("loop.iteration", "x", "loop.once.product", "loop.once.rows"));
  std::vector<std::string> names;
  for (const Op& op : loop.regions[1]->ops()) names.push_back(op.name);
  EXPECT_THAT(names,
              testing::UnorderedElementsAre("loop.body.moved", "loop.body.added", "loop.body.next",
                                            "loop.body.one", "loop.body.next_iteration"));
}

TEST(WhileInvariants, KeepTheResultsOfTheBodyWrittenThreeTimes) {
  const Graph graph = with_invariants();
  ReferenceValues state = initial_variables(graph, 3);
  ReferenceTensor x{{DType::kF32, {8, 6}}, {}};
  for (int i = 0; i < 48; ++i) x.values.push_back(std::sin(i));
  state["x"] = x;
  const auto &a = state.at("a").values, &b = state.at("b").values, &row = state.at("row").values;
  std::vector<double> h = x.values;
  for (int iteration = 0; iteration < 3; ++iteration) {
    std::vector<double> next(48);
    for (int r = 0; r < 8; ++r)
      for (int k = 0; k < 6; ++k) {
        double sum = row[k];
        for (int i = 0; i < 6; ++i)
          for (int j = 0; j < 4; ++j) sum += h[6 * r + i] * a[4 * i + j] * b[6 * j + k];
        next[6 * r + k] = std::tanh(sum);
      }
    h = next;
  }
  const ReferenceTensor wanted{{DType::kF32, {8, 6}}, h};
  // The interpreter rounds what it stores to f32: some dozens of roundings of 2^-24.
  EXPECT_LE(largest_change(interpret(graph, state).at("loop:1"), wanted), 0x1p-18);
}

// a and b are divided where the product sums: its partial values are added up once, and not in
// every iteration.
TEST(WhileInvariants, AreExchangedOnceBeforeTheLoop) {
  const std::vector<Mark> marks{shard_tensor("a", "P(None, \"tp\")"),
                                shard_tensor("b", "P(\"tp\")")};
  EXPECT_EQ(loop_invariants_failure_of(with_invariants(), "tp=2", marks), "");
  EXPECT_EQ(
      loop_invariants_failure_of(with_invariants(), "dp=2", {shard_tensor("x", "P(\"dp\")")}, 4),
      "");
  const Compiled compiled =
      compile(with_invariants(), std::make_shared<const Mesh>(parse_mesh("tp=2")), marks);
  std::set<std::string> exchanged;  // outside of the loop; an all-reduce may be two exchanges
  for (const Task& task : compiled.tasks.tasks) {
    if (task.kind == Task::Kind::kExchange) {
      const std::string& name = compiled.tasks.registers[task.inputs[0]].name;
      exchanged.insert(name.substr(0, name.find(' ')));
    }
    for (const KernelStep& step : task.steps) {
      if (!step.control) continue;
      for (const TaskGraph& region : step.control->regions)
        for (const Task& inner : region.tasks)
          EXPECT_NE(inner.kind, Task::Kind::kExchange) << inner.name;
    }
  }
  EXPECT_THAT(exchanged, testing::ElementsAre("loop.once.product"));
}

TEST(WhileInvariants, HaveGradients) {
  Graph graph = with_invariants();
  Builder builder(graph);
  const ValueId loss = builder.reduce_sum(graph.output("h"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  ReferenceValues state = initial_variables(graph, 3);
  ReferenceTensor x{{DType::kF32, {8, 6}}, {}};
  for (int i = 0; i < 48; ++i) x.values.push_back(0.3 * std::sin(i));
  state["x"] = x;
  for (const GradientSample& sample : sample_gradients(graph, state, {"x", "a", "b", "row"}))
    EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where;
}

}  // namespace
}  // namespace tessera::fuzz
