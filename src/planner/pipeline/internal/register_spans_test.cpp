#include "planner/pipeline/internal/register_spans.h"

#include <gtest/gtest.h>

#include <string>

#include "sharding/propagation/micro_batches.h"
#include "sharding/propagation/propagate.h"

namespace tessera {
namespace {

// Two micro-batches of f32[8, 4] have registers of 4 x 4 x 4 = 64 bytes.
constexpr double kRegister = 64;

/// What the units hold. Workspaces are none.
std::vector<UnitBytes> bytes_of(const std::string& text, std::vector<int> units,
                                std::vector<StepPart> parts) {
  const Graph graph = parse_graph(text);
  const MeshPtr mesh = std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"});
  const ShardedGraph sharded = propagate(graph, with_micro_batches(one_mesh(mesh), 2), {});
  StepOps ops{std::move(units), std::move(parts), {}, {}, 1};
  for (int i = 0; i < std::ssize(graph.ops()); ++i) {
    ops.kernels.push_back(i);
    ops.of_kernels.push_back({i});
    ops.unit_count = std::max(ops.unit_count, ops.units[i] + 1);
  }
  const std::vector<Bytes> none(graph.ops().size(), Bytes(0));
  return RegisterSpans(graph, sharded, ops).bytes(sharded.meshes.front().mesh, none);
}

constexpr StepPart F = StepPart::kForward, B = StepPart::kInputGradient,
                   W = StepPart::kWeightGradient;

// b and c are kept. The forward has x and a, then b over a, then b and c; the backward writes p
// over c and q over p. So there are never more than two registers.
TEST(RegisterSpans, ResultsThatTheBackwardReadsAreKept) {
  const UnitBytes unit = bytes_of(
                             "input x: f32[8,4]\n"
                             "a = exp(x): f32[8,4]\n"
                             "b = neg(a): f32[8,4]\n"
                             "c = tanh(b): f32[8,4]\n"
                             "p = neg(c): f32[8,4] @backward <- gradient c\n"
                             "q = mul(p, b): f32[8,4] @backward <- gradient b\n"
                             "output q = q\n",
                             {0, 0, 0, 0, 0}, {F, F, F, B, B})
                             .front();
  EXPECT_EQ(unit.kept, 2 * kRegister);
  EXPECT_EQ(unit.passing, 0);
  EXPECT_EQ(unit.variables, 0);
}

// x and c are kept. While a is computed again there are p (over c), x, which is an input and is not
// written over, and a: one register beside what is kept.
TEST(RegisterSpans, WhatIsComputedAgainIsAliveFromThereToItsLastReader) {
  const UnitBytes unit = bytes_of(
                             "input x: f32[8,4]\n"
                             "a = exp(x): f32[8,4]\n"
                             "b = neg(a): f32[8,4]\n"
                             "c = tanh(b): f32[8,4]\n"
                             "p = neg(c): f32[8,4] @backward <- gradient c\n"
                             "a.recompute = exp(x): f32[8,4] @backward <- recompute a\n"
                             "b.recompute = neg(a.recompute): f32[8,4] @backward <- recompute b\n"
                             "q = mul(p, b.recompute): f32[8,4] @backward <- gradient b\n"
                             "output q = q\n",
                             {0, 0, 0, 0, 0, 0, 0}, {F, F, F, B, B, B, B})
                             .front();
  EXPECT_EQ(unit.kept, 2 * kRegister);
  EXPECT_EQ(unit.passing, kRegister);
}

// The backward of both units reads b, which the first one makes: a stage that begins with the
// second one keeps it, too. The weight gradient w reads c and p.
TEST(RegisterSpans, AStageKeepsWhatItsBackwardReadsOfEarlierUnits) {
  const std::vector<UnitBytes> units = bytes_of(
      "input x: f32[8,4]\n"
      "b = exp(x): f32[8,4]\n"
      "c = tanh(b): f32[8,4]\n"
      "p = add(c, b): f32[8,4] @backward <- gradient c\n"
      "w = mul(p, c): f32[8,4] @backward <- gradient c\n"
      "q = mul(p, b): f32[8,4] @backward <- gradient b\n"
      "output q = q\n"
      "output w = w\n",
      {0, 1, 1, 1, 0}, {F, F, B, W, B});
  EXPECT_EQ(units[0].kept, kRegister);      // b
  EXPECT_EQ(units[0].arriving, 0);          // x has no reader in the backward
  EXPECT_EQ(units[1].kept, kRegister);      // c
  EXPECT_EQ(units[1].arriving, kRegister);  // b
  EXPECT_EQ(units[1].late, 2 * kRegister);  // c and p
}

}  // namespace
}  // namespace tessera
