#include "tools/cli/internal/print/plan/explain_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/cli/internal/print/plan/mark_effects.h"

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Two products; the second is on the second stage.
Graph two_products() {
  return parse_graph(
      "input x: f32[4,8]\n"
      "variable a: f32[8,8] = constant(0.5)\n"
      "variable b: f32[8,8] = constant(0.5)\n"
      "first.dot = dot_general(x, a) {spec=\"bi,io->bo\"}: f32[4,8]\n"
      "second.dot = dot_general(first.dot, b) {spec=\"bi,io->bo\"}: f32[4,8]\n"
      "output y = second.dot\n");
}

Plan two_stages(int64_t micro_batches) {
  Plan plan =
      parse_plan(parse_json(R"({"meshes": [{"name": "stage0", "mesh": {"dp": 1}, "ranks": [0]},)"
                            R"( {"name": "stage1", "mesh": {"dp": 1}, "ranks": [1]}],)"
                            R"( "marks": [{"op": "first.dot", "mesh": "stage0"},)"
                            R"( {"op": "second.dot", "mesh": "stage1"}]})",
                            "the plan"),
                 "the plan");
  plan.micro_batches = micro_batches;
  return plan;
}

TEST(ExplainName, NamesTheStageOfAnOpAndTheRankOfItsParts) {
  const Graph graph = two_products();
  for (const int64_t micro_batches : {1, 2}) {
    const Compiled compiled = compile(graph, two_stages(micro_batches));
    const std::string text = explain_name_text(graph, compiled, "second.dot");
    EXPECT_THAT(text, HasSubstr("  on stage1, rank 1\n"));
    EXPECT_THAT(text, HasSubstr("part of a rank"));
    EXPECT_THAT(text, HasSubstr("f32[8,8] at rank 1"));
    EXPECT_THAT(text, Not(HasSubstr("f32[8,8] at rank 0")));
    EXPECT_THAT(explain_name_text(graph, compiled, "b"), HasSubstr("  at rank 1  f32[8,8]"));
  }
  const Compiled serial = compile(graph, serial_plan());
  EXPECT_THAT(explain_name_text(graph, serial, "second.dot"), HasSubstr(" at rank 0 "));
}

TEST(MarkEffects, SayWhatThePlanWouldBeWithoutEachMark) {
  const Graph graph = two_products();
  Plan plan;
  plan.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("tp=2")));
  plan.marks = {shard_tensor("a", "P(None, \"tp\")"), shard_tensor("b", "P(None, \"tp\")")};
  const std::vector<MarkEffect> effects = mark_effects(graph, plan);
  ASSERT_EQ(effects.size(), 2u);
  const PlanNumbers numbers = numbers_of(compile(graph, plan), "");
  Plan without = plan;
  without.marks.pop_back();
  EXPECT_EQ(effects[1].sent, numbers_of(compile(graph, without), "").all_sent.bytes);
  EXPECT_NE(effects[1].sent, numbers.all_sent.bytes);
  const std::string text = mark_effects_text(numbers, effects, 3);
  EXPECT_THAT(text, HasSubstr("tensor 'b' P(None, \"tp\")"));
  EXPECT_THAT(text, HasSubstr("1 further mark"));
}

TEST(MarkEffects, AMarkWithoutWhichThePlanIsImpossibleSaysWhy) {
  const Graph graph = two_products();
  Plan plan = two_stages(1);
  plan.marks.push_back(shard_tensor("nothing", "P(\"dp\")"));
  for (const MarkEffect& effect : mark_effects(graph, plan))
    EXPECT_EQ(effect.refused.empty(), effect.index == 2) << effect.refused;
}

}  // namespace
}  // namespace tessera
