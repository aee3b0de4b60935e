// The passes over the serial graph inside of compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

/// One op for each pass to remove: half of x is folded, once is x, again is e, and nothing reads
/// unread.
constexpr std::string_view kProgram =
    "input x: f32[8]\n"
    "quarter = constant() {dtype=\"f32\", shape=[8], value=0.25}: f32[8]\n"
    "half = mul_scalar(quarter) {value=2.0}: f32[8]\n"
    "halved = mul(x, half): f32[8]\n"
    "once = mul_scalar(x) {value=1.0}: f32[8]\n"
    "e = exp(x): f32[8]\n"
    "again = exp(x): f32[8]\n"
    "unread = sin(x): f32[8]\n"
    "s = add(halved, once): f32[8]\n"
    "t = add(e, again): f32[8]\n"
    "y = mul(s, t): f32[8]\n"
    "output y = y\n";

Compiled compiled(const std::vector<std::string>& disabled, const std::vector<Mark>& marks = {}) {
  return compile(
      parse_graph(kProgram),
      Plan{.meshes = one_mesh(mesh_of("d=2")), .disabled_passes = disabled, .marks = marks});
}

std::vector<std::string> ops_of(const Compiled& made) {
  std::vector<std::string> names;
  for (const Task& task : made.tasks.tasks)
    for (const KernelStep& step : task.steps) names.push_back(step.op);
  return names;
}

using ::testing::Contains;
using ::testing::ElementsAre;

TEST(LowerGraphPasses, WithoutOneTheProgramIsAnother) {
  const std::vector<std::string> all = {"fold", "algebra", "cse", "dead-code"};
  EXPECT_THAT(ops_of(compiled({})), ElementsAre("half", "halved", "e", "s", "t", "y"));
  EXPECT_THAT(ops_of(compiled(all)), ElementsAre("quarter", "half", "halved", "once", "e", "again",
                                                 "unread", "s", "t", "y"));
  EXPECT_THAT(ops_of(compiled({"fold"})), Contains("quarter"));
  EXPECT_THAT(ops_of(compiled({"algebra"})), Contains("once"));
  EXPECT_THAT(ops_of(compiled({"cse"})), Contains("again"));
  EXPECT_THAT(ops_of(compiled({"dead-code"})), Contains("unread"));
}

TEST(LowerGraphPasses, TheResultNamesTheValueThatHoldsWhatARemovedOneHeld) {
  const Compiled made = compiled({});
  const auto name_of = [&](std::string_view name) {
    const auto value = find_value(made, name);
    return value ? made.graph.value(*value).name : "none";
  };
  EXPECT_EQ(name_of("again"), "e");
  EXPECT_EQ(name_of("once"), "x");
  EXPECT_EQ(name_of("y"), "y");
  EXPECT_EQ(name_of("unread"), "none");
}

TEST(LowerGraphPasses, AMarkedOpIsLeftAsItIs) {
  for (const char* name : {"half", "once", "again", "unread"})
    EXPECT_THAT(ops_of(compiled({}, {shard_tensor(name, "P(\"d\")")})), Contains(name));
}

// Both stages compute exp(x), and each of them for itself.
TEST(LowerGraphPasses, AnOpStaysOnTheStageThatTheMarksGiveIt) {
  const Meshes meshes = {
      {"first",
       std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"d"}, std::vector<Rank>{0})},
      {"last", std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"d"},
                                            std::vector<Rank>{1})}};
  const Compiled made =
      compile(parse_graph(kProgram), meshes,
              {stage("{x,quarter,half,halved,once,e,s}", "first"), stage("{again,t,y}", "last")});
  EXPECT_THAT(ops_of(made), Contains("again"));
  for (const char* name : {"again", "t", "y"})
    EXPECT_EQ(made.sharded.stages.ops[made.graph.find_op(name)->index], 1) << name;
  for (const char* name : {"half", "e", "s"})
    EXPECT_EQ(made.sharded.stages.ops[made.graph.find_op(name)->index], 0) << name;
}

TEST(LowerGraphPasses, TheFingerprintOfTheResultNamesThePassesThatRan) {
  const RewrittenFingerprint all = rewritten_fingerprint(compiled({}));
  const RewrittenFingerprint some = rewritten_fingerprint(compiled({"fold", "dead-code"}));
  EXPECT_THAT(all.passes, ElementsAre("fold", "algebra", "cse", "dead-code", "recompute"));
  EXPECT_THAT(some.passes, ElementsAre("algebra", "cse", "recompute"));
  EXPECT_NE(all.graph, some.graph);
}

TEST(LowerGraphPasses, TheFingerprintIsKnownWithoutCompilingThePasses) {
  const Graph graph = parse_graph(kProgram);
  for (const std::vector<std::string>& disabled :
       {std::vector<std::string>{}, std::vector<std::string>{"fold", "dead-code"}}) {
    Plan plan;
    plan.disabled_passes = disabled;
    const RewrittenFingerprint known = rewritten_fingerprint(graph, plan);
    const RewrittenFingerprint of_compiled = rewritten_fingerprint(compile(graph, plan));
    EXPECT_EQ(known.graph, of_compiled.graph);
    EXPECT_EQ(known.passes, of_compiled.passes);
  }
}

TEST(LowerGraphPasses, APlanOfOtherPassesCompilesWithANote) {
  const Graph graph = parse_graph(kProgram);
  Plan plan;
  plan.fingerprint = PlanFingerprint{};
  plan.fingerprint->rewritten = rewritten_fingerprint(compiled({"cse"}));
  const auto notes = [&](const std::vector<std::string>& disabled) {
    std::vector<std::string> texts;
    plan.disabled_passes = disabled;
    for (const ShardingNote& note : compile(graph, plan).sharded.notes) texts.push_back(note.text);
    return texts;
  };
  EXPECT_THAT(notes({"cse"}), ElementsAre());
  EXPECT_THAT(
      notes({}),
      ElementsAre("the plan was written after fold, algebra, dead-code, "
                  "recompute had rewritten the graph; after fold, algebra, cse, "
                  "dead-code, recompute the graph is another one, which computes the same"));
}

TEST(LowerGraphPasses, WhatADisabledPassWouldDoIsNoted) {
  const Graph graph = parse_graph(kProgram);
  Plan plan;
  const auto notes = [&] {
    std::vector<std::string> texts;
    for (const ShardingNote& note : compile(graph, plan).sharded.notes) texts.push_back(note.text);
    return texts;
  };
  plan.disabled_passes = {"recompute", "buckets"};
  EXPECT_THAT(notes(), ElementsAre()) << "the plan asks for neither";
  plan.recompute.kind = Recompute::Kind::kFull;
  plan.bucket = Bytes(1);
  EXPECT_THAT(notes(),
              ElementsAre("the plan's recompute has no effect: the pass 'recompute' is disabled",
                          "the plan's bucket_mib has no effect: the pass 'buckets' is disabled"));
  plan.disabled_passes = {};
  EXPECT_THAT(notes(), ElementsAre());
}

}  // namespace
}  // namespace tessera
