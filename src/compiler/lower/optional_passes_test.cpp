// The optional passes that move exchanges and change their form: each changes the program that it
// is for, and what it could do wrong is found. Those over the serial graph are in
// graph_passes_test.cpp; passes/combine_test.cpp, passes/sum_chains_test.cpp and
// passes/collective_matmul_test.cpp plant the faults of theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/verify_program.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/testing/layers.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/ops/builder.h"
#include "ir/ops/spatial.h"

namespace tessera {
namespace {

Meshes one_axis(const std::string& text) {
  return one_mesh(std::make_shared<const Mesh>(parse_mesh(text)));
}

/// Three layers under data parallelism, whose weights are stored divided.
Plan divided_weights() {
  std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")"), shard_tensor("w*", "P(\"dp\")")};
  for (int i = 0; i < 3; ++i)
    marks.push_back(shard_op("y.w" + std::to_string(i), "[P(\"dp\"), P()]"));
  return {.meshes = one_axis("dp=4"), .bucket = Bytes(1), .marks = marks};
}

Graph optional_passes_two_convolutions() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2, 3, 8, 5}});
  const ValueId w1 = b.variable("w1", {DType::kF32, {4, 3, 3, 3}}, Initializer::normal(0, 1));
  const ValueId w2 = b.variable("w2", {DType::kF32, {2, 4, 3, 3}}, Initializer::normal(0, 1));
  const ValueId y1 = convolution(b, x, w1, same_places({3, 3}), "y1");
  graph.add_output("y2", convolution(b, y1, w2, same_places({3, 3}), "y2"));
  return graph;
}

Plan computed_halos() {
  return {.meshes = one_axis("h=2"),
          .halos = HaloForm::kRecompute,
          .marks = {shard_tensor("x", "P(None, None, \"h\")")}};
}

Graph gathered_product() {
  Graph graph;
  Builder b(graph);
  const ValueId h = b.unary("tanh", b.input("x", {DType::kF32, {8, 6}}), "h");
  const ValueId w = b.variable("w", {DType::kF32, {6, 4}}, Initializer::normal(0, 1));
  graph.add_output("y", b.dot(h, w, "mk,kn->mn", "y"));
  return graph;
}

Plan in_chunks() {
  return {.meshes = one_axis("tp=2"),
          .collective_matmul = 2,
          .marks = {shard_tensor("x", "P(\"tp\")"), shard_tensor("w", "P(None, \"tp\")"),
                    shard_op("y", "[P(), P(None,\"tp\")]")}};
}

bool changes_the_program(const std::string& pass, const Graph& graph, Plan plan) {
  const std::string with = to_text(compile(graph, plan).tasks);
  plan.disabled_passes = {pass};
  return to_text(compile(graph, plan).tasks) != with;
}

TEST(OptionalPasses, ChangeTheProgramsThatTheyAreFor) {
  const Graph layers = testing_layers::square_layers(3, 8, 16);
  EXPECT_TRUE(changes_the_program("buckets", layers, divided_weights()));
  EXPECT_TRUE(changes_the_program("prefetch", layers, divided_weights()));
  EXPECT_TRUE(changes_the_program("halos", optional_passes_two_convolutions(), computed_halos()));
  EXPECT_TRUE(changes_the_program("collective-matmul", gathered_product(), in_chunks()));
}

// ---- planted faults ----

Program partitioned(const Graph& graph, const Plan& plan) {
  return partition(graph, propagate(graph, plan.placed(), plan.marks));
}

InstructionIndex last_exchange(const Program& program) {
  InstructionIndex last;
  for (InstructionIndex i : program.instructions.indices())
    if (program.instructions[i].exchange()) last = i;
  return last;
}

// As a pass like buckets would, that moves an exchange too far ahead.
TEST(OptionalPasses, AnExchangeThatIsMovedBeforeWhatItSendsIsFound) {
  Program program = partitioned(testing_layers::square_layers(3, 8, 16), divided_weights());
  verify(program, "buckets");
  std::vector<InstructionIndex> order{last_exchange(program)};
  for (InstructionIndex i : program.instructions.indices())
    if (i != order.front()) order.push_back(i);
  reorder(program, order);
  EXPECT_THROW(verify(program, "buckets"), InternalError);
}

// As a pass like prefetch would, that takes an issue point from another list.
TEST(OptionalPasses, AnIssuePointAfterItsExchangeIsFound) {
  Program program = partitioned(testing_layers::square_layers(3, 8, 16), divided_weights());
  const InstructionIndex exchange = last_exchange(program);
  program.order = instances(program);
  const Time turn(exchange.value());
  program.order[turn].issue_after = turn - 1;
  verify(program, "prefetch");
  program.order[turn].issue_after = turn + 1;
  EXPECT_THROW(verify(program, "prefetch"), InternalError);
}

// As a pass like halos would, that widens an op by less than its reader needs.
TEST(OptionalPasses, AHaloThatIsTooSmallIsFound) {
  Compiled made = compile(optional_passes_two_convolutions(), computed_halos());
  const auto is_widened = [](const RegisterForm& reg) {
    return reg.name == "y1" && reg.attr.has_windows();
  };
  auto& registers = made.tasks.registers.forms();
  const auto y1 = std::find_if(registers.begin(), registers.end(), is_widened);
  ASSERT_NE(y1, registers.end());
  check_placements(made.graph, made.tasks, 1);
  y1->attr.dims[2].windows.clear();
  EXPECT_THROW(check_placements(made.graph, made.tasks, 1), InternalError);
}

}  // namespace
}  // namespace tessera
