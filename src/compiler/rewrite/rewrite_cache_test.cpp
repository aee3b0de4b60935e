#include "compiler/rewrite/rewrite_cache.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

namespace tessera {
namespace {

Graph graph_with_a_duplicate() {
  return parse_graph(
      "input x: f32[4]\n"
      "a = neg(x): f32[4]\n"
      "b = neg(x): f32[4]\n"
      "c = add(a, b): f32[4]\n"
      "output c = c\n");
}

TEST(RewriteCache, GivesWhatARewriteGives) {
  const Graph graph = graph_with_a_duplicate();
  const auto passes = enabled_passes(graph_passes(), {});
  RewriteCache cache;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(to_text(cache.rewrite(graph, {}, passes).made.graph),
              to_text(rewrite(graph, {}, passes).made.graph));
}

TEST(RewriteCache, OtherBoundsAndPassesGiveAnotherGraph) {
  const Graph graph = graph_with_a_duplicate();
  const auto passes = enabled_passes(graph_passes(), {});
  RewriteCache cache;
  const auto ops_with = [&](const RewriteBounds& bounds, const auto& list) {
    return cache.rewrite(graph, bounds, list).made.graph.ops().size();
  };
  EXPECT_EQ(ops_with({}, passes), 2U);  // a and b are one op
  RewriteBounds kept;
  kept.kept = {true, true, false};
  EXPECT_EQ(ops_with(kept, passes), 3U);
  EXPECT_EQ(ops_with({}, std::vector<const GraphPass*>()), 3U);
  EXPECT_EQ(ops_with({}, passes), 2U);
}

TEST(RewriteCache, GivesTheSameAfterMoreBoundsThanItKeeps) {
  // Four sums of two equal ops: one of these is left, unless both are kept.
  std::string text = "input x: f32[4]\n";
  for (const std::string kind : {"neg", "exp", "tanh", "sqrt"}) {
    for (const std::string& name : {kind + "0", kind + "1"})
      text += name + " = " + kind + "(x): f32[4]\n";
    text += kind + " = add(" + kind + "0, " + kind + "1): f32[4]\n";
  }
  for (const std::string kind : {"neg", "exp", "tanh", "sqrt"})
    text += "output " + kind + " = " + kind + "\n";
  const Graph graph = parse_graph(text);
  const auto passes = enabled_passes(graph_passes(), {});
  RewriteCache cache;
  for (int round = 0; round < 2; ++round)
    for (unsigned set = 0; set < 16; ++set) {  // more than kRewritesKept
      RewriteBounds bounds;
      for (int op = 0; op < 12; ++op) bounds.kept.push_back((set >> (op / 3) & 1) != 0);
      EXPECT_EQ(std::ssize(cache.rewrite(graph, bounds, passes).made.graph.ops()),
                8 + std::popcount(set))
          << set;
    }
}

TEST(RewriteCache, GivesWhatEachChoiceOfRecomputeSays) {
  const Graph graph = parse_graph(
      "input x: f32[4]\n"
      "a = exp(x): f32[4]\n"
      "b = neg(a): f32[4]\n"
      "p = add(a, b): f32[4] @backward <- gradient b\n"
      "output p = p\n");
  RewriteCache cache;
  const auto patterns = [](const std::string& name) {
    return Recompute{Recompute::Kind::kPatterns, {name}};
  };
  for (int round = 0; round < 2; ++round)
    for (const Recompute& choice :
         {Recompute{}, patterns("a"), patterns("b"), Recompute{Recompute::Kind::kSelective}})
      EXPECT_EQ(cache.recomputed_values(graph, choice), recomputed_values(graph, choice));
  EXPECT_NE(cache.recomputed_values(graph, patterns("a")),
            cache.recomputed_values(graph, patterns("b")));
}

}  // namespace
}  // namespace tessera
