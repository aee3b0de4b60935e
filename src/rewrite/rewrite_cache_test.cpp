#include "rewrite/rewrite_cache.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tessera
