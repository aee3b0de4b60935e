#include "compiler/lower/internal/passes/prefetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "compiler/lower/testing/layers.h"

namespace tessera {
namespace {

constexpr int64_t kPrefetchWidth = 64;
constexpr Bytes kWeight{kPrefetchWidth * kPrefetchWidth * 4};

/// A task graph and questions about it.
struct Made {
  Compiled compiled;

  const TaskGraph& tasks() const { return compiled.tasks; }
  Task task(TaskId id) const { return tasks().tasks[id]; }
  int place(TaskId id) const {
    return static_cast<int>(std::find(tasks().order.begin(), tasks().order.end(), id) -
                            tasks().order.begin());
  }
  /// The exchanges whose names begin so, in the order of their turns.
  std::vector<TaskId> exchanges(const std::string& name) const {
    std::vector<TaskId> found;
    for (TaskId id : tasks().order)
      if (task(id).kind == Task::Kind::kExchange && task(id).name.text().starts_with(name))
        found.push_back(id);
    return found;
  }
  TaskId maker_of_source(TaskId exchange) const {
    return tasks().registers[task(exchange).inputs[0]].producer;
  }
  /// Kernels of its ranks between the place from which it may begin and its turn.
  int kernels_ahead(TaskId exchange) const {
    int count = 0;
    const TaskId after = task(exchange).issue_after;
    const int begin = after.is_none() ? place(exchange) : place(after) + 1;
    for (int at = begin; at < place(exchange); ++at)
      if (const Task& other = task(tasks().order[at]); other.mesh == task(exchange).mesh)
        count += static_cast<int>(other.steps.size());
    return count;
  }
};

Made data_parallel(Bytes bucket, Bytes overlap) {
  return {compile(testing_layers::square_layers(4, 8, kPrefetchWidth),
                  Plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=4"))),
                       .prefetch_window = overlap,
                       .bucket = bucket,
                       .marks = {shard_tensor("x", "P(\"dp\")")}})};
}

/// Each rank holds a part of every weight and needs all of it for its rows.
/// The pass *combine* would gather parameters as small as these at once.
Made sharded_parameters(Bytes overlap) {
  std::vector<Mark> marks = {shard_tensor("x", "P(\"dp\")"), shard_tensor("w*", "P(\"dp\")")};
  for (int i = 0; i < 4; ++i)
    marks.push_back(shard_op("y.w" + std::to_string(i), "[P(\"dp\"), P()]"));
  return {compile(testing_layers::square_layers(4, 8, kPrefetchWidth),
                  Plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=4"))),
                       .prefetch_window = overlap,
                       .disabled_passes = {"combine"},
                       .marks = marks})};
}

Made prefetch_two_stages(Bytes overlap) {
  Meshes meshes;
  for (Rank rank : {0, 1})
    meshes.push_back({"stage" + std::to_string(rank),
                      std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                                   std::vector{rank})});
  return {compile(testing_layers::square_layers(4, 32, kPrefetchWidth),
                  Plan{.meshes = meshes,
                       .micro_batches = 4,
                       .prefetch_window = overlap,
                       .marks = {stage("layer.0", "stage0"), stage("layer.1", "stage0"),
                                 stage("layer.2", "stage1"), stage("layer.3", "stage1")}})};
}

TEST(Overlap, TheSumOfABucketIsDueWhenTheNextOneIsFull) {
  const Made now = data_parallel(kWeight, Bytes(0)), late = data_parallel(kWeight, kPrefetchWindow);
  const auto kernels_behind = [](const Made& made, TaskId exchange) {
    int count = 0;
    for (int at = made.place(made.maker_of_source(exchange)) + 1; at < made.place(exchange); ++at)
      count += static_cast<int>(made.task(made.tasks().order[at]).steps.size());
    return count;
  };
  // That of the last layer is made first; its sum has the backward of the other layers to run
  // behind.
  const TaskId first_now = now.exchanges("reduce-scatter y.w3").front(),
               first_late = late.exchanges("reduce-scatter y.w3").front();
  EXPECT_EQ(kernels_behind(now, first_now), 0);
  EXPECT_EQ(now.kernels_ahead(first_now), 0);
  EXPECT_GT(kernels_behind(late, first_late), 0);
  EXPECT_EQ(late.task(first_late).issue_after, late.maker_of_source(first_late))
      << "it begins where its gradient is made";
}

TEST(Overlap, SumsWaitOnlyForAsManyBytesAsTheWindow) {
  // A gradient and a quarter of it wait together: one fits, two do not.
  const Made made = data_parallel(kWeight, kWeight + kWeight);
  const auto sum_of = [&](int layer) {
    return made.exchanges("reduce-scatter y.w" + std::to_string(layer)).front();
  };
  for (const int layer : {3, 2})
    EXPECT_EQ(made.place(sum_of(layer)), made.place(made.maker_of_source(sum_of(layer - 1))) + 1)
        << "layer " << layer;
}

TEST(Overlap, AParameterIsGatheredWhileTheLayersBeforeAreComputed) {
  const Made made = sharded_parameters(kPrefetchWindow), plain = sharded_parameters(Bytes(0));
  const std::vector<TaskId> gathers = made.exchanges("all-gather w");
  ASSERT_EQ(gathers.size(), 4u);
  EXPECT_EQ(made.kernels_ahead(gathers[0]), 0) << "nothing comes before the first layer";
  for (size_t i = 1; i < gathers.size(); ++i)
    EXPECT_GT(made.kernels_ahead(gathers[i]), 0) << "layer " << i;
  for (TaskId gather : plain.exchanges("all-gather w"))
    EXPECT_TRUE(plain.task(gather).issue_after.is_none());
}

TEST(Overlap, WhatComesFromAnotherStageMayComeWhileTheMicroBatchBeforeIsComputed) {
  const Made made = prefetch_two_stages(kPrefetchWindow);
  int prefetched = 0;
  for (TaskId exchange : made.exchanges("")) {
    const Register& source = made.tasks().registers[made.task(exchange).inputs[0]];
    if (source.mesh == made.task(exchange).mesh || made.task(exchange).micro_batch < 1) continue;
    if (made.task(exchange).issue_after.is_none()) continue;
    EXPECT_GE(made.place(made.task(exchange).issue_after), made.place(source.producer))
        << "the sender has nothing to send before";
    prefetched += made.kernels_ahead(exchange) > 0;
  }
  EXPECT_GT(prefetched, 0);
}

TEST(Overlap, TakesAtMostTwoWindowsOfMemory) {
  for (const int64_t window : {0L, 4096L, 16384L, 50000L, 1L << 25}) {
    for (const auto& make : {sharded_parameters, prefetch_two_stages}) {
      const Made plain = make(Bytes(0)), made = make(Bytes(window));
      for (MeshIndex mesh : plain.compiled.arenas.indices())
        EXPECT_LE(made.compiled.arenas[mesh].live_bound,
                  plain.compiled.arenas[mesh].live_bound + Bytes(2 * window))
            << window;
    }
  }
}

}  // namespace
}  // namespace tessera
