#include "compiler/rewrite/rewrite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/error.h"
#include "compiler/rewrite/testing/rewritten.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/model.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

using error_testing::message_of;
using rewrite_testing::all_passes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string_view> names_of(const std::vector<const GraphPass*>& passes) {
  std::vector<std::string_view> names;
  for (const GraphPass* pass : passes) names.push_back(pass->name);
  return names;
}

TEST(GraphPasses, RunInTheOrderOfTheTableWithoutThoseThatAreDisabled) {
  EXPECT_THAT(names_of(all_passes()),
              ElementsAre("fold", "algebra", "cse", "dead-code", "recompute"));
  EXPECT_THAT(names_of(enabled_passes(graph_passes(), {"algebra", "prefetch"})),
              ElementsAre("fold", "cse", "dead-code", "recompute"));
}

void nothing(GraphDraft&) {}

TEST(GraphPasses, ThatNeedADisabledOneOrExcludeAnotherAreRefused) {
  const std::vector<GraphPass> table = {
      {"a", nothing}, {"b", nothing, {"a"}}, {"c", nothing, {}, {"b"}}};
  EXPECT_THAT(names_of(enabled_passes(table, {"c"})), ElementsAre("a", "b"));
  EXPECT_THAT(names_of(enabled_passes(table, {"a", "b"})), ElementsAre("c"));
  EXPECT_EQ(message_of([&] { enabled_passes(table, {"a", "c"}); }),
            "78 the compiler pass 'a' is disabled but 'b' is not\n"
            "  why: 'b' needs what 'a' makes\n"
            "  fix: disable both of them, or neither");
  EXPECT_EQ(message_of([&] { enabled_passes(table, {}); }),
            "78 the compiler passes 'c' and 'b' exclude each other\n"
            "  why: each of them undoes what the other one makes\n"
            "  fix: disable one of them");
}

TEST(GraphPasses, StandAfterThoseThatTheyNeed) {
  const std::vector<GraphPass> table = {{"b", nothing, {"a"}}, {"a", nothing}};
  EXPECT_THROW(enabled_passes(table, {}), InternalError);
}

// 0.5 * 2 is folded to 1, then x * 1 is x, then exp(x) is a repetition of e, and the constants have
// no readers.
TEST(Rewrite, PassesWorkOnWhatTheOthersLeave) {
  const Rewritten made = rewrite_testing::rewritten(
      "input x: f32[2]\n"
      "a = constant() {dtype=\"f32\", shape=[2], value=0.5}: f32[2]\n"
      "b = mul_scalar(a) {value=2.0}: f32[2]\n"
      "c = mul(x, b): f32[2]\n"
      "e = exp(x): f32[2]\n"
      "f = exp(c): f32[2]\n"
      "y = add(e, f): f32[2]\n"
      "output y = y\n",
      {"fold", "algebra", "cse", "dead-code"});
  EXPECT_EQ(to_text(made.made.graph),
            "input x: f32[2]\n"
            "e = exp(x): f32[2]\n"
            "y = add(e, e): f32[2]\n"
            "output y = y\n");
  EXPECT_THAT(made.passes[0].changes,
              ElementsAre("b = constant() {dtype=\"f32\", shape=[2], value=1.0}"));
  EXPECT_THAT(made.passes[1].changes, ElementsAre("c is x", "b is dropped"));
  EXPECT_THAT(made.passes[2].changes, ElementsAre("f is e"));
  EXPECT_THAT(made.passes[3].changes, ElementsAre("a is dropped"));
}

TEST(Rewrite, KeepsRegionsRolesVariablesAndTheOrderOfValues) {
  const std::string text =
      "input n: i32[]\n"
      "variable w: f32[4] = normal(0.0, 1.0)\n"
      "h = while(w, n) {carried=1}: f32[4]\n"
      "  region\n"
      "    input c.h: f32[4]\n"
      "    input c.n: i32[]\n"
      "    c.p = compare(c.n, c.n) {relation=\"lt\"}: bool[]\n"
      "    output predicate = c.p\n"
      "  end\n"
      "  region\n"
      "    input b.h: f32[4]\n"
      "    input b.n: i32[]\n"
      "    b.y = neg(b.h): f32[4]\n"
      "    output h = b.y\n"
      "  end\n"
      "variable m: f32[4] = constant(0.0) state <- optimizer w\n"
      "m.next = add(m, h): f32[4] @optimizer <- optimizer w\n"
      "next m = m.next\n"
      "output h = h\n";
  const Graph graph = parse_graph(text);
  const Graph after = rewrite(graph, {}, all_passes()).made.graph;
  EXPECT_EQ(to_text(after), to_text(graph));
}

TEST(Rewrite, OpsAndValuesKnowWhatTheyWereBefore) {
  const Rewritten made = rewrite_testing::rewritten(
      "input x: f32[2]\n"
      "dead = exp(x): f32[2]\n"
      "y = sin(x): f32[2]\n"
      "output y = y\n",
      {"dead-code"});
  ASSERT_EQ(made.made.op_before.size(), 1u);
  EXPECT_EQ(made.made.op_before[0], OpId{1});
  // Of the stages 0 (dead) and 1 (y) that of y is left; x is on stage 2.
  const MeshAssignment after = assignment_after({{0, 1}, {2, 0, 1}}, made.made);
  EXPECT_THAT(after.ops, ElementsAre(1));
  EXPECT_THAT(after.values, ElementsAre(2, 1));
}

TEST(Rewrite, MarksKeepWhatTheyName) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "a.0 = exp(x): f32[4]\n"
      "a.1 = exp(x): f32[4]\n"
      "b.0 = sin(x): f32[4]\n"
      "b.1 = sin(x): f32[4]\n");
  // A placement holds for every op that the pattern names; a stage only needs one to name.
  EXPECT_THAT(ops_kept_by(graph, {shard_op("a.*", "[P(\"dp\")]")}),
              ElementsAre(true, true, false, false));
  EXPECT_THAT(ops_kept_by(graph, {shard_tensor("b.1", "P(\"dp\")")}),
              ElementsAre(false, false, false, true));
  EXPECT_THAT(ops_kept_by(graph, {stage("b.*", "last")}), ElementsAre(false, false, true, false));
}

std::string broken_promise(const std::string& before, const std::string& after) {
  try {
    check_rewritten(parse_graph(before), parse_graph(after));
    return "none";
  } catch (const InternalError& error) {
    return error.what();
  }
}

TEST(CheckRewritten, FindsWhatARewriteMustKeep) {
  const std::string graph =
      "input x: f32[2]\nvariable w: f32[2] = constant(1.0)\nw.next = add(w, x): f32[2]\n"
      "output y = x\nnext w = w.next\n";
  EXPECT_EQ(broken_promise(graph, graph), "none");
  EXPECT_THAT(broken_promise("input x: f32[2]\ninput z: f32[2]\n", "input x: f32[2]\n"),
              HasSubstr("keeps the inputs"));
  EXPECT_THAT(broken_promise("input x: f32[2]\noutput y = x\n", "input x: f32[2]\noutput z = x\n"),
              HasSubstr("keeps output 'y'"));
  EXPECT_THAT(broken_promise("variable w: f32[2] = constant(1.0)\n",
                             "variable w: f32[2] = constant(2.0)\n"),
              HasSubstr("keeps variable 'w'"));
}

TEST(CheckRewritten, AnAddedVariableNamesTheValueThatItDerivesFrom) {
  const std::string graph = "variable w: f32[2] = constant(1.0)\n";
  EXPECT_EQ(
      broken_promise(graph, graph + "variable w.sum: f32[] = constant(0.0) state <- some-pass w\n"),
      "none");
  EXPECT_THAT(broken_promise(graph, graph + "variable s: f32[] = constant(0.0) state\n"),
              HasSubstr("'s', which a rewrite adds, derives from a value"));
}

/// A training graph of gpt.
Graph rewrite_training_graph(int layers) {
  ModelConfig config;
  config.layers = layers;
  config.width = 16;
  config.heads = 2;
  config.vocabulary = 32;
  config.context = 8;
  Graph graph = build_model(config, {.batch = 2, .training = true, .loss = true, .seed = 1});
  Builder builder(graph, 1);
  add_training(builder, graph.output("loss"), {});
  return graph;
}

TEST(Rewrite, ChangesNothingTheSecondTime) {
  const Graph once = rewrite(rewrite_training_graph(2), {}, all_passes()).made.graph;
  const Rewritten twice = rewrite(once, {}, all_passes());
  for (const GraphPassReport& pass : twice.passes) EXPECT_TRUE(pass.changes.empty()) << pass.name;
  EXPECT_EQ(to_text(twice.made.graph), to_text(once));
}

}  // namespace
}  // namespace tessera
