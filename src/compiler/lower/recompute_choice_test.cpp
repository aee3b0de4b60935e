#include "compiler/lower/recompute_choice.h"

#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "ir/graph/graph.h"

namespace tessera {
namespace {

TEST(RecomputeChoice, OfAValueThatAMarkDividesUnequallyByMicroBatchesCountsWhatItsOpMakes) {
  // No op makes or reads y in two unequal parts, so that no program has it where it is marked.
  const Graph graph = parse_graph(
      "input x: f32[4,3]\nvariable w: f32[3,3] = constant(1.0)\n"
      "y = tanh(w): f32[3,3]\nz = dot_general(x, y) {spec=\"bi,io->bo\"}: f32[4,3]\n"
      "y.grad = square(y): f32[3,3] @backward <- gradient y\n"
      "output z = z\noutput g = y.grad\n");
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"dp"}));
  plan.micro_batches = 2;
  plan.marks = {shard_tensor("x", "P(\"dp\")"), shard_tensor("y", "P(\"mb\")")};
  EXPECT_NO_THROW(compile(graph, plan));
  plan.recompute = {Recompute::Kind::kAuto, {}, Bytes(1 << 20)};
  const RecomputeDecision decision = recompute_decision(graph, plan);
  ASSERT_EQ(decision.kept.size(), 1U);
  EXPECT_GE(decision.kept[0], Bytes(36)) << "y whole, f32[3,3]";
  EXPECT_NO_THROW(compile(graph, plan));
}

}  // namespace
}  // namespace tessera
