#include "compiler/lower/internal/passes/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "compiler/lower/testing/layers.h"

namespace tessera {
namespace {

Compiled compiled_with(Bytes bucket) {
  // Their turns stay where the buckets put them.
  const Plan plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=4"))),
                  .prefetch_window = Bytes(0),
                  .bucket = bucket,
                  .marks = {shard_tensor("x", "P(\"dp\")")}};
  return compile(testing_layers::square_layers(3, 8, 64), plan);
}

/// "make w1" and "reduce-scatter w1" in the order in which they are done: gradients made, and added
/// up over the ranks.
std::vector<std::string> story_of(const TaskGraph& tasks) {
  std::vector<std::string> story;
  for (TaskId id : tasks.order) {
    const Task& task = tasks.tasks[id];
    const auto tell = [&](const std::string& verb, RegisterIndex reg) {
      const std::string& name = tasks.registers[reg].name;
      for (const char* weight : {"w0", "w1", "w2"})
        if (name.starts_with("y." + std::string(weight) + ".grad.b"))
          story.push_back(verb + " " + weight);
    };
    for (size_t part = 0; part < task.parts.size(); ++part)
      tell(std::string(to_text(task.parts[part].exchange.kind)), task.outputs[part]);
    for (const KernelStep& step : task.steps)
      for (RegisterIndex reg : step.outputs) tell("make", reg);
  }
  return story;
}

TEST(Buckets, GradientsTravelWhileTheBackwardGoesOn) {
  EXPECT_THAT(story_of(compiled_with(Bytes(1)).tasks),
              testing::ElementsAre("make w2", "reduce-scatter w2", "make w1", "reduce-scatter w1",
                                   "make w0", "reduce-scatter w0",  //
                                   "all-gather w0", "all-gather w1", "all-gather w2"));
}

TEST(Buckets, ABucketIsFullWhenItsGradientsAreAsLarge) {
  EXPECT_THAT(story_of(compiled_with(Bytes(2 * 64 * 64 * 4)).tasks),
              testing::ElementsAre(
                  "make w2", "make w1", "reduce-scatter w2", "reduce-scatter w1", "make w0",  //
                  "reduce-scatter w0", "all-gather w0", "all-gather w1", "all-gather w2"));
}

TEST(Buckets, ASmallModelHasOneRoundAtTheEnd) {
  const Compiled plain = compiled_with(kGradientBucket);
  const std::vector<std::string> story = story_of(plain.tasks);
  ASSERT_EQ(story.size(), 9u);
  for (size_t i = 0; i < 3; ++i) EXPECT_THAT(story[i], testing::StartsWith("make"));
}

TEST(Buckets, BetweenItsTwoStepsOnlyAShareOfAGradientIsHeld) {
  EXPECT_LT(compiled_with(Bytes(1)).arenas.front().live_bound,
            compiled_with(kGradientBucket).arenas.front().live_bound);
}

}  // namespace
}  // namespace tessera
