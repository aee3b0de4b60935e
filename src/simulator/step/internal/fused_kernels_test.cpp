#include "simulator/step/internal/fused_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

OperationClass class_by_name(const Task&, const KernelStep& step) {
  return step.call->kernel.starts_with("dot") ? OperationClass::kMatmul
                                              : OperationClass::kElementwise;
}

/// "tanh exp: h -> e" of each kernel of the tasks of a role: its ops, what it reads and writes.
std::vector<std::string> kernels_of(const TaskGraph& tasks, Fusion fusion, Role role) {
  FusedKernels fused(tasks, fusion, class_by_name);
  std::vector<std::string> texts;
  const auto names = [&](const std::vector<RegisterIndex>& list) {
    std::string text;
    for (const RegisterIndex reg : list) text += " " + tasks.registers[reg].name.text();
    return text;
  };
  for (const TaskId id : tasks.tasks.indices()) {
    const Task& task = tasks.tasks[id];
    if (task.kind != Task::Kind::kCompute || task.role != role) continue;
    for (const FusedKernel& kernel : fused.of(id)) {
      std::string text;
      for (const size_t step : kernel.steps) text += task.steps[step].op.text() + " ";
      texts.push_back(text + "from" + names(kernel.reads) + " to" + names(kernel.writes));
    }
  }
  return texts;
}

TaskGraph compiled_graph(const Graph& graph) {
  return compile(graph, mesh_of("dp=1"), {}).tasks;
}

constexpr const char* kTwoLayers =
    "input x: f32[8,64]\n"
    "variable v: f32[64,32] = normal(0.0, 0.02)\n"
    "variable w: f32[32,16] = normal(0.0, 0.02)\n"
    "one.a = dot_general(x, v) {spec=\"bi,io->bo\"}: f32[8,32]\n"
    "one.b = tanh(one.a): f32[8,32]\n"
    "two.c = exp(one.b): f32[8,32]\n"
    "two.d = mul(two.c, one.b): f32[8,32]\n"
    "y = dot_general(two.d, w) {spec=\"bi,io->bo\"}: f32[8,16]\n"
    "output y = y\n";

TEST(FusedKernels, NeighboursBetweenProductsAreOne) {
  EXPECT_THAT(kernels_of(compiled_graph(parse_graph(kTwoLayers)), Fusion::kAll, Role::kForward),
              ElementsAre("one.a from x v to one.a", "one.b two.c two.d from one.a to two.d",
                          "y from two.d w to y"));
}

TEST(FusedKernels, OfLayersAreThoseOfOneLayer) {
  EXPECT_THAT(kernels_of(compiled_graph(parse_graph(kTwoLayers)), Fusion::kLayers, Role::kForward),
              ElementsAre("one.a from x v to one.a", "one.b from one.a to one.b",
                          "two.c two.d from one.b to two.d", "y from two.d w to y"));
}

// The sum needs the product, which needs the exponential: the two are in two kernels.
TEST(FusedKernels, AreApartWhereAProductIsOnAWayBetweenTheirSteps) {
  const Graph graph = parse_graph(
      "input x: f32[8,8]\n"
      "variable w: f32[8,8] = normal(0.0, 0.02)\n"
      "e = exp(x): f32[8,8]\n"
      "p = dot_general(e, w) {spec=\"bi,io->bo\"}: f32[8,8]\n"
      "s = add(e, p): f32[8,8]\n"
      "output s = s\n");
  EXPECT_THAT(kernels_of(compiled_graph(graph), Fusion::kAll, Role::kForward),
              ElementsAre("e from x to e", "p from e w to p", "s from e p to s"));
}

// The backward computes tanh again from h, which the product keeps for it.
TEST(FusedKernels, WhatElementwiseStepsOfTheBackwardReadIsNotWritten) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 64}});
  const ValueId w = b.variable("w", {DType::kF32, {64, 32}}, Initializer::normal(0, 0.1));
  const ValueId h = b.dot(x, w, "mk,kn->mn", "h");
  const ValueId t = b.unary("tanh", h, "t");
  const ValueId loss = b.reduce_sum(b.unary("square", t, "q"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  const TaskGraph tasks = compiled_graph(graph);
  for (const std::string& kernel : kernels_of(tasks, Fusion::kAll, Role::kForward)) {
    const std::string writes = kernel.substr(kernel.find(" to") + 3) + " ";
    EXPECT_EQ(writes.find(" t "), std::string::npos) << kernel;
  }
  bool reads_product = false;
  for (const std::string& kernel : kernels_of(tasks, Fusion::kAll, Role::kBackward)) {
    const std::string reads = kernel.substr(kernel.find("from"));
    reads_product |= reads.starts_with("from h ") || reads.find(" h ") != std::string::npos;
    EXPECT_EQ(reads.find(" t "), std::string::npos) << kernel;
  }
  EXPECT_TRUE(reads_product);
}

// exp(v) is of a list, which is put before the other kernels.
TEST(FusedKernels, WhatIsComputedAgainReadsWhatItsOwnKernelReads) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 64}});
  const ValueId w = b.variable("w", {DType::kF32, {64, 32}}, Initializer::normal(0, 0.1));
  const ValueId v = b.variable("v", {DType::kF32, {64, 32}}, Initializer::normal(0, 0.1));
  const ValueId t = b.unary("tanh", b.dot(x, w, "mk,kn->mn", "h"), "t");
  const ValueId d = b.dot(x, b.unary("exp", v, "e"), "mk,kn->mn", "d");
  const ValueId loss = b.add(b.reduce_sum(b.unary("square", t, "q"), {0, 1}, "one"),
                             b.reduce_sum(d, {0, 1}, "two"), "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  const TaskGraph tasks = compiled_graph(graph);
  EXPECT_TRUE(kernels_of(tasks, Fusion::kAll, Role::kForward).front().starts_with("e from v"));
  EXPECT_THAT(kernels_of(tasks, Fusion::kAll, Role::kBackward),
              Contains(AllOf(StartsWith("q.grad"), HasSubstr("t.grad.x from h "))));
}

// The gradient of a bias is a sum of many rows: the update does not compute them again.
TEST(FusedKernels, GradientsOfParametersAreWritten) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {64, 64}});
  const ValueId c = b.variable("c", {DType::kF32, {64}}, Initializer::constant(0));
  const ValueId biased = b.add(x, b.broadcast(c, {64, 64}, {1}, "rows"), "biased");
  const ValueId loss = b.reduce_sum(b.unary("square", biased, "q"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  for (const std::string& kernel :
       kernels_of(compiled_graph(graph), Fusion::kAll, Role::kOptimizer))
    EXPECT_EQ(kernel.find(" x "), std::string::npos) << kernel;
}

constexpr const char* kBias =
    "input x: f32[64,64]\n"
    "variable w: f32[64,64] = normal(0.0, 0.02)\n"
    "variable c: f32[64] = normal(0.0, 0.02)\n"
    "up.dot = dot_general(x, w) {spec=\"bi,io->bo\"}: f32[64,64]\n"
    "up.rows = broadcast(c) {dims=[1], shape=[64, 64]}: f32[64,64]\n"
    "up.biased = add(up.dot, up.rows): f32[64,64]\n"
    "act.y = tanh(up.biased): f32[64,64]\n"
    "output y = act.y\n";

// The broadcast is made by its reader, and the product adds it.
TEST(FusedKernels, AProductAddsItsBias) {
  for (const Fusion fusion : {Fusion::kLayers, Fusion::kAll})
    EXPECT_THAT(
        kernels_of(compiled_graph(parse_graph(kBias)), fusion, Role::kForward),
        ElementsAre("up.dot up.biased from x w c to up.biased", "act.y from up.biased to act.y"));
}

// The wider cast is made by its reader; the narrower one by the kernel before it.
TEST(FusedKernels, CastsTakeNoKernelOfTheirOwn) {
  const Graph graph = parse_graph(
      "input x: f16[64,64]\n"
      "one.wide = cast(x) {dtype=\"f32\"}: f32[64,64]\n"
      "two.e = exp(one.wide): f32[64,64]\n"
      "three.narrow = cast(two.e) {dtype=\"f16\"}: f16[64,64]\n"
      "output y = three.narrow\n");
  EXPECT_THAT(kernels_of(compiled_graph(graph), Fusion::kLayers, Role::kForward),
              ElementsAre("two.e three.narrow from x to three.narrow"));
}

TEST(FusedKernels, AnUpdateIsAPartOfAKernelOverAList) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 64}});
  const ValueId w = b.variable("w", {DType::kF32, {64, 32}}, Initializer::normal(0, 0.1));
  const ValueId loss = b.reduce_sum(b.dot(x, w, "mk,kn->mn", "h"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kAdamW});
  const TaskGraph tasks = compiled_graph(graph);
  FusedKernels fused(tasks, Fusion::kLayers, class_by_name);
  for (const TaskId id : tasks.tasks.indices()) {
    const Task& task = tasks.tasks[id];
    if (task.kind != Task::Kind::kCompute || task.role != Role::kOptimizer) continue;
    ASSERT_EQ(fused.of(id).size(), 1u);
    EXPECT_TRUE(fused.of(id).front().is_of_list);
  }
}

TEST(FusedKernels, TheLayerOfAnOpIsItsScope) {
  EXPECT_EQ(layer_of("blocks.0.norm1.centered.recompute"), "blocks.0.norm1");
  EXPECT_EQ(layer_of("blocks.0.residual1.f32.backward"), "blocks.0");
  EXPECT_EQ(layer_of("blocks.0.norm1.centered"), "blocks.0.norm1");
  EXPECT_EQ(layer_of("blocks.0.norm1.centered.grad.sum"), "blocks.0.norm1");
  EXPECT_EQ(layer_of("loss"), "loss");
}

}  // namespace
}  // namespace tessera
