// How long copies of parameters live: for a step, or for each pass that reads them (ZeRO 3).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

constexpr int kLayers = 6;
constexpr int64_t kWidth = 32;

/// y = tanh(y w) in layers; the ranks divide the rows of x, and keep a part of each weight.
FuzzCase zero_3(bool by_pass, int64_t micro_batches) {
  FuzzCase given;
  given.seed = 8;
  given.micro_batches = micro_batches;
  Builder b(given.graph);
  ValueId y = b.input("x", {DType::kF32, {8, kWidth}});
  for (int i = 0; i < kLayers; ++i) {
    const auto scope = b.scope("layer" + std::to_string(i));
    const ValueId w = b.variable("w", {DType::kF32, {kWidth, kWidth}}, Initializer::normal(0, 0.1));
    y = b.unary("tanh", b.dot(y, w, "mk,kn->mn", "dot"), "y");
  }
  const ValueId loss = b.reduce_sum(b.unary("square", y, "squares"), {0, 1}, "loss");
  given.graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=4")));
  given.marks = {shard_tensor("x", "P(\"dp\")", "case"),
                 shard_op("layer*.dot", "[P(\"dp\"), P()]", "case"),
                 shard_op("layer*.dot.grad.a", "[P(\"dp\"), P()]", "case"),
                 shard_op("layer*.dot.grad.b", "[P(\"dp\"), P(\"dp\")]", "case")};
  for (int i = 0; i < kLayers; ++i) {
    const std::string w = "layer" + std::to_string(i) + ".w";
    given.marks.push_back(shard_tensor(w, "P(\"dp\")", "case"));
    if (by_pass) given.marks.push_back(copies_live_for(ReplicaLifetime::kPass, w, "case"));
  }
  given.fills["learning_rate"] = {false, 0.001, 0.01};
  return given;
}

Compiled compiled(const FuzzCase& given) {
  return compile(given.graph, Plan{.meshes = given.meshes,
                                   .micro_batches = given.micro_batches,
                                   .prefetch_window = Bytes(0),
                                   .bucket = Bytes(1),
                                   .marks = given.marks});
}

/// By role, the all-gathers of weights.
std::map<Role, int> gathers(const TaskGraph& tasks) {
  std::map<Role, int> counts;
  for (const Task& task : tasks.tasks) {
    if (task.kind != Task::Kind::kExchange) continue;
    for (RegisterIndex source : task.inputs)
      if (tasks.registers[source].storage == Register::Storage::kVariable) ++counts[task.role];
  }
  return counts;
}

TEST(CopyLives, OfAPassComputeWhatTheSerialProgramComputes) {
  for (const int64_t micro_batches : {1, 2}) {
    const auto failure = run_case(zero_3(true, micro_batches));
    EXPECT_FALSE(failure) << micro_batches << ": " << failure->text;
  }
}

// The gradient of the first layer's x is not needed: the backward gathers one weight less.
TEST(CopyLives, OfAPassGatherAWeightInTheForwardAndAgainInTheBackward) {
  EXPECT_EQ(gathers(compiled(zero_3(false, 1)).tasks),
            (std::map<Role, int>{{Role::kForward, kLayers}}));
  EXPECT_EQ(gathers(compiled(zero_3(true, 1)).tasks),
            (std::map<Role, int>{{Role::kForward, kLayers}, {Role::kBackward, kLayers - 1}}));
}

TEST(CopyLives, OfAPassGatherInEachMicroBatch) {
  EXPECT_EQ(
      gathers(compiled(zero_3(true, 2)).tasks),
      (std::map<Role, int>{{Role::kForward, 2 * kLayers}, {Role::kBackward, 2 * (kLayers - 1)}}));
}

// Kept for the step, five whole weights of 4 KiB are alive at the end of the forward: the first
// layer's is not read again. By pass there are one weight and one gradient of 4 KiB at a time, and
// up to six parts of gradients of 1 KiB.
TEST(CopyLives, OfAPassLetTheBytesOfAWeightBeUsedAgain) {
  const Bytes weight(kWidth * kWidth * 4);
  const Bytes kept = compiled(zero_3(false, 1)).arenas.front().size;
  const Bytes freed = compiled(zero_3(true, 1)).arenas.front().size;
  EXPECT_GE(kept.value(), (kLayers - 1) * weight.value());
  EXPECT_LE(freed.value(), kept.value() - 2 * weight.value());
}

}  // namespace
}  // namespace tessera::fuzz
